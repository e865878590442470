"""The job process of one attempt, watched until it is certainly dead."""

from __future__ import annotations

import asyncio
import logging
import stat
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from planrun.clock import Clock
from planrun.core.errors import Permanent, PlanrunError
from planrun.core.kinds import Kind
from planrun.core.life import Outcome
from planrun.core.limits import Breach, Signs, Vitals, check, check_output, look, unseen_ms
from planrun.core.messages import Checkpoint, CheckpointRequest, Failure, Granted
from planrun.ledger.contract import Ledger
from planrun.worker.checkpoints import CheckpointUpload
from planrun.worker.exits import explain
from planrun.worker.folder import AttemptFolder
from planrun.worker.gates import Reservation
from planrun.worker.happenings import CheckpointReady, Done, Exited, Failed, Happening, Nudge, Progress, Stopped
from planrun.worker.keeper import Holding
from planrun.worker.options import WorkerOptions
from planrun.worker.orders import Orders
from planrun.worker.pool import Pool, Process
from planrun.worker.taking import Successor

log = logging.getLogger(__name__)

LOOK_S = 1.0
EXIT_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Ran:
    """How the job process went. It is dead by now, with its whole tree.

    Attributes:
        released: Handed back, and why; None: not handed back.
        started: False if that was because its process could not be started: no fault of the job.
        over: The lease is lost, or the job canceled: nothing may be said of this attempt.
    """

    outcome: Outcome = Outcome.SUCCESS
    outputs: dict[str, Path] = field(default_factory=dict)
    value: Any = None
    error: Failure | None = None
    released: str | None = None
    started: bool = True
    over: bool = False

    @classmethod
    def failed(cls, outcome: Outcome, error: Failure) -> Ran:
        text = error.message.encode(errors="replace").decode()  # it may name files, and those are bytes
        return cls(outcome=outcome, error=msgspec.structs.replace(error, message=text))


@dataclass(eq=False)
class Run:
    """One attempt's process, from start to death."""

    kind: Kind
    folder: AttemptFolder
    log_file: Path
    holding: Holding
    orders: Orders
    options: WorkerOptions
    processes: Pool
    ledger: Ledger
    clock: Clock
    room: Reservation
    successor: Successor
    _signs: Signs = field(init=False)
    _vitals: Vitals = field(default_factory=Vitals, init=False)
    _started_ms: int = field(default=0, init=False)
    _looked_ms: int = field(default=0, init=False)
    _has_ended: bool = field(default=False, init=False)
    _stop_by_ms: int | None = field(default=None, init=False)
    _asked_to_stop: bool = field(default=False, init=False)
    _taking: list[asyncio.Future[None]] = field(default_factory=list, init=False)
    _checkpoints: int = field(default=0, init=False)
    _upload: asyncio.Future[Checkpoint] | None = field(default=None, init=False)
    _one_by_one: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def carry(
        self, granted: Granted, *, inputs: dict[str, Path], resume: Path | None, uploads: CheckpointUpload
    ) -> Ran | None:
        """Run the job code. None: this worker is broken, and nothing is to be said."""
        if self.orders.hand_back:
            return Ran(released="the worker drains")
        lease = granted.lease
        try:
            process = await self.processes.take(granted, self.kind)
        except OSError as error:
            return Ran(released=f"the job process did not start: {error}", started=False)
        self._started_ms = self._looked_ms = self.clock.boot_ms()
        self._signs = Signs(at_ms=self._started_ms)
        try:
            process.run(
                self.kind,
                params=granted.params,
                inputs=inputs,
                scratch=self.folder.scratch,
                checkpoint=resume,
                attempt=lease.attempt,
                hint=lease.job_id,
                log=self.log_file,
            )
            return await self._watch(process, uploads)
        finally:
            await self.processes.end(process)

    async def stored(self) -> None:
        """Wait until no checkpoint is on its way into the store any more: nothing stops a thread."""
        if self._upload is not None:
            await asyncio.wait({self._upload})

    async def _watch(self, process: Process, uploads: CheckpointUpload) -> Ran | None:
        """Listen to the job, the lease and the orders; whoever ends it first decides."""
        orders = self.orders
        orders.listeners.append(process.nudge)
        self.holding.on_end = process.nudge
        try:
            while True:
                if orders.abandon:
                    await process.kill()
                    return None
                if self.holding.is_over:
                    await process.kill()
                    return Ran(over=True)
                if orders.hurry or self._must_stop(process):
                    await process.kill()
                    return Ran(released="the worker drains")
                if (breach := self._breach()) is not None:
                    return await self._stop_for(process, breach)
                try:
                    async with asyncio.timeout(self._patience_s()):
                        event = await process.next()
                except TimeoutError:
                    event = Nudge()
                self._leave_out_unseen()
                if (ran := await self._hear(process, event, uploads)) is not None:
                    return ran
        finally:
            self._has_ended = True
            orders.listeners.remove(process.nudge)
            self.holding.on_end = lambda: None
            for taking in self._taking:
                taking.cancel()

    async def _hear(self, process: Process, event: Happening, uploads: CheckpointUpload) -> Ran | None:
        """One thing that the process said. Not None: it is over, and dead."""
        match event:
            case Progress(fraction=fraction, message=message):
                self.holding.say(fraction, message)
                self._look(None, progressed=True)
            case Nudge():
                pass
            case Vitals():
                self._look(event, progressed=False)
                self.room.used(disk_bytes=event.scratch_bytes, memory_bytes=event.rss_bytes)
            case CheckpointReady(seq=seq):
                self._look(None, progressed=True)
                self._taking.append(asyncio.ensure_future(self._take_checkpoint(process, seq, uploads)))
            case Done():
                return await self._finish(process, event)
            case Failed(outcome=outcome, message=message, code=code):
                exited = await process.kill()
                return Ran.failed(outcome, Failure(message=message, code=code, tail=exited.tail))
            case Stopped():
                exited = await process.kill()
                if not self._asked_to_stop:
                    unasked = Failure(
                        message="the job stopped without being asked to", code="stopped", tail=exited.tail
                    )
                    return Ran.failed(Outcome.TRANSIENT, unasked)
                return Ran(released="the worker drains; the job stopped by itself")
            case Exited():
                return Ran.failed(*explain(event))
        return None

    async def _finish(self, process: Process, done: Done) -> Ran:
        """U0: the job said done, its process exited 0, everything else of its tree is dead, outputs are real files."""
        self.successor.look()
        if self.kind.warm:
            await process.clear()
        else:
            exited = await self._exit_of(process)
            if exited.code != 0:
                return Ran.failed(*explain(exited))
        try:
            outputs = {name: _kept_file(name, Path(path), self.folder.scratch) for name, path in done.outputs.items()}
        except Permanent as error:
            return Ran.failed(Outcome.PERMANENT, Failure(message=str(error), code=error.code))
        # Measured once a second, and what occupies the disk: neither the last moment nor a file of holes shows there.
        if (breach := check_output(self.kind, sum(path.stat().st_size for path in outputs.values()))) is not None:
            return Ran.failed(*explain(Exited(), breach=breach))
        if self.kind.warm and not process.has_ended:
            self.processes.give_back(process)
        return Ran(outputs=outputs, value=done.value)

    async def _exit_of(self, process: Process) -> Exited:
        """Wait for the end of a process that said done; one that lingers is killed, and that is no success."""
        try:
            async with asyncio.timeout(EXIT_S):
                while True:
                    event = await process.next()
                    if isinstance(event, Exited):
                        return event
        except TimeoutError:
            log.warning("the job process said done but did not end within %g s", EXIT_S)
            return await process.kill()

    async def _take_checkpoint(self, process: Process, seq: int, uploads: CheckpointUpload) -> None:
        """Store the checkpoint under this attempt's key, then let the ledger name it for the next attempt.

        In order, though threads of the job may ask at once: the ledger takes no older one after a newer.
        """
        async with self._one_by_one:
            why = await self._store_checkpoint(uploads)
        process.answer_checkpoint(seq, taken=not why, why=why)

    async def _store_checkpoint(self, uploads: CheckpointUpload) -> str:
        """Empty if it was taken, else why not."""
        lease, folder = self.holding.lease, self.folder.scratch / "checkpoint"
        may_go_on = lambda: not self._has_ended and self.holding.may_act(self.clock.boot_ms())  # noqa: E731
        try:
            if not self.kind.resumable:
                raise Permanent(f"kind {self.kind.kind} is not declared resumable", code="checkpoint")
            # Counted here: a job that miscounts must not look like an older one.
            self._checkpoints += 1
            upload = asyncio.to_thread(uploads.upload, folder, self._checkpoints, may_go_on=may_go_on)
            self._upload = asyncio.ensure_future(upload)
            self._upload.add_done_callback(_heard)  # nobody may be left who waits for it
            taken = await asyncio.shield(self._upload)
            standing = await self.ledger.checkpoint(CheckpointRequest(lease=lease, checkpoint=taken))
            if standing.status != "held":
                self.holding.end(standing)
            return "" if standing.status == "held" else standing.why
        except Exception as error:  # the job waits for an answer, whatever it has left there
            why = str(error) or type(error).__name__
            fault = None if isinstance(error, PlanrunError | OSError) else error
            log.warning("job %s attempt %s: checkpoint not taken: %s", lease.job_id, lease.attempt, why, exc_info=fault)
            return why

    # --- when to stop it ---

    def _must_stop(self, process: Process) -> bool:
        """The worker drains: first the job may end by itself, then leave a checkpoint, then it has to go."""
        if not self.orders.hand_back:
            return False
        now_ms = self.clock.boot_ms()
        if self._stop_by_ms is None:
            self._stop_by_ms = now_ms + round(self.options.drain_grace_s * 1000)
        if now_ms < self._stop_by_ms:
            return False
        if self.kind.resumable and not self._asked_to_stop:
            self._asked_to_stop = True
            self._stop_by_ms = now_ms + round(self.options.checkpoint_grace_s * 1000)
            process.ask_stop()
            return False
        return True

    def _patience_s(self) -> float:
        """How long nothing needs to be looked at."""
        if self._stop_by_ms is None:
            return LOOK_S
        return max(0.01, min(LOOK_S, (self._stop_by_ms - self.clock.boot_ms()) / 1000))

    def _look(self, vitals: Vitals | None, *, progressed: bool) -> None:
        self._vitals = vitals or self._vitals
        self._signs = look(self._signs, vitals=vitals, progressed=progressed, now_ms=self.clock.boot_ms())

    def _leave_out_unseen(self) -> None:
        """Time that passed while the machine slept, or this process stood still, counts against no job."""
        now_ms = self.clock.boot_ms()
        unseen = unseen_ms(looked_ms=self._looked_ms, now_ms=now_ms)
        self._looked_ms = now_ms
        self._started_ms += unseen
        self._signs = replace(self._signs, at_ms=self._signs.at_ms + unseen)

    def _breach(self) -> Breach | None:
        return check(
            self.kind,
            started_ms=self._started_ms,
            last_sign_ms=self._signs.at_ms,
            vitals=self._vitals,
            now_ms=self.clock.boot_ms(),
        )

    async def _stop_for(self, process: Process, breach: Breach) -> Ran:
        exited = await process.kill()
        return Ran.failed(*explain(exited, breach=breach))


def _heard(upload: asyncio.Future[Any]) -> None:
    """How it ended is known here: whoever asked may have gone, and nothing hangs on it then."""
    if not upload.cancelled():
        upload.exception()


def _kept_file(name: str, path: Path, scratch: Path) -> Path:
    """An output as it must be: a plain file with something in it, inside scratch, reached through no link.

    Raises:
        Permanent: It is not.
    """
    if not path.is_absolute():
        path = scratch / path
    try:
        status = path.lstat()
        inside = path.parent.resolve().is_relative_to(scratch.resolve())
    except OSError:
        raise Permanent(f"output {name}: there is no file {path.name} in scratch", code="output-missing") from None
    if not inside:
        raise Permanent(f"output {name}: {path} lies outside scratch; write it into scratch", code="output-outside")
    if not stat.S_ISREG(status.st_mode):
        raise Permanent(
            f"output {name}: {path.name} is not a plain file; links and folders are not kept", code="output-kind"
        )
    if status.st_size == 0:
        raise Permanent(f"output {name}: {path.name} is empty; write it, or leave it out", code="output-empty")
    return path
