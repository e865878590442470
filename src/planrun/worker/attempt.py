"""One attempt, from grant to settle.

The order is the promise: the process tree is dead, the fence is checked, the bytes lie under the
attempt's own key, the ledger settles, and only then does anybody hear of it. Every step may be the
last one this process does; docs/concepts/leases-and-fencing.md says what each death leaves behind.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from planrun.clock import Clock
from planrun.complaints import Complaints
from planrun.core.errors import JobError, LedgerUnavailable, LostLease, StorageError
from planrun.core.kinds import Kind
from planrun.core.life import Outcome
from planrun.core.messages import (
    Failure,
    Granted,
    Output,
    ReleaseRequest,
    SettleRequest,
)
from planrun.core.names import attempt_prefix, token_shown
from planrun.folders import remove_folder
from planrun.ledger.contract import Ledger
from planrun.storage.contract import Store
from planrun.trip import trip
from planrun.worker.checkpoints import CheckpointUpload
from planrun.worker.folder import AttemptFolder, plain_suffix
from planrun.worker.inputs import Inputs
from planrun.worker.keeper import Holding, Keeper
from planrun.worker.kept_log import keep_log, shown_log
from planrun.worker.last_words import before_the_end
from planrun.worker.run import Ran, Run
from planrun.worker.store_wait import Drained, StoreWait
from planrun.worker.taking import Successor

log = logging.getLogger(__name__)

T = TypeVar("T")

RETRY_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


@dataclass(frozen=True)
class Tools:
    """What every attempt of a worker shares.

    Attributes:
        is_fleet: The ledger, and whoever asks what a job has printed, are elsewhere.
    """

    ledger: Ledger
    store: Store
    clock: Clock
    keeper: Keeper
    inputs: Inputs
    who: str
    is_fleet: bool = False


@dataclass(eq=False)
class Attempt:
    """Attributes:
    failed_fatally: Set once the job said that this worker is broken.
    """

    granted: Granted
    kind: Kind
    holding: Holding
    folder: AttemptFolder
    tools: Tools
    run: Run
    successor: Successor
    failed_fatally: bool = field(default=False, init=False)
    store_wait: StoreWait = field(init=False)

    def __post_init__(self) -> None:
        clock, run = self.tools.clock, self.run
        complaints = Complaints(log, clock)
        self.store_wait = StoreWait(self.name, self.holding, run.orders, clock, complaints, run.options.drain_grace_s)

    async def carry(self) -> None:
        """Run the attempt to its end, whatever that is. Never raises for anything that a job can cause."""
        lease = self.granted.lease
        try:
            ran = await self._prepare_and_run()
            if self.tools.is_fleet:
                await keep_log(self.tools.store, self._prefix, self.run.log_file)
            if ran is not None:  # else this worker is broken: the lease runs out by itself
                await self._conclude(ran)
        finally:
            self.tools.keeper.drop(lease)
            if not await self.successor.has_come():  # else the emptied folder is that one's
                await self._clean_up()

    async def _clean_up(self) -> None:
        if not self.folder.remove_small():
            await asyncio.to_thread(self.folder.remove)

    @property
    def name(self) -> str:
        lease = self.granted.lease
        return f"job {lease.job_id} attempt {lease.attempt} (token {token_shown(lease.token)})"

    @property
    def _prefix(self) -> str:
        """Where this attempt alone may store."""
        lease = self.granted.lease
        return attempt_prefix(self.granted.namespace, lease.job_id, lease.attempt, lease.token)

    # --- run ---

    async def _prepare_and_run(self) -> Ran | None:
        try:
            self.folder.create()
            inputs = await self._while_wanted(self._bring()) if self.granted.inputs else {}
            resume = await self._while_wanted(self.store_wait.carry(self._restore)) if self.granted.checkpoint else None
        except JobError as error:
            return Ran.failed(Outcome(type(error).__name__.lower()), Failure(message=str(error), code=error.code))
        except LostLease:
            return Ran(over=True)
        except Drained as error:
            return None if self.run.orders.abandon else Ran(released=str(error))
        except OSError as error:
            return Ran.failed(Outcome.TRANSIENT, Failure(message=f"scratch: {error}", code="scratch"))
        lease = self.granted.lease
        uploads = CheckpointUpload(
            self.tools.store,
            attempt=lease.attempt,
            prefix=self._prefix,
            format_name=self.kind.resumable,
            bytes_max=self.kind.output_bytes_max,
        )
        shown = shown_log(self.tools.store, self._prefix, self.run.log_file, self.tools.clock)
        async with shown if self.tools.is_fleet else nullcontext():
            return await self.run.carry(self.granted, inputs=inputs, resume=resume, uploads=uploads)

    async def _bring(self) -> dict[str, Path]:
        granted, limit_s = self.granted, self.kind.max_runtime_s
        return await self.tools.inputs.bring(
            granted.inputs, granted.namespace, self.folder, self.store_wait, limit_s=limit_s
        )

    async def _while_wanted(self, fetching: Coroutine[Any, Any, T]) -> T:
        """What the job needs before it starts, as long as it is to start here. Nobody waits for a thread that hangs.

        Raises:
            LostLease, Drained: As `_stop_unwanted`.
        """
        listeners, task = self.run.orders.listeners, asyncio.create_task(fetching)

        def look() -> None:
            if self._unwanted is not None:
                task.cancel()

        listeners.append(look)
        self.holding.on_end = look
        look()
        try:
            await asyncio.wait({task})
        finally:
            listeners.remove(look)
            self.holding.on_end = lambda: None
            task.cancel()
            await asyncio.wait({task})
        if task.cancelled():
            self._stop_unwanted()
        return task.result()

    @property
    def _unwanted(self) -> LostLease | Drained | None:
        """Why the job is not to start here any more; None: it is."""
        orders = self.run.orders
        if self.holding.is_over:
            return LostLease("the lease ended before the job started")
        return Drained("the worker drains") if orders.hand_back or orders.hurry or orders.abandon else None

    def _stop_unwanted(self) -> None:
        """
        Raises:
            LostLease: The lease has ended.
            Drained: The worker's orders say so.
        """
        if (why := self._unwanted) is not None:
            raise why

    def _restore(self) -> Path | None:
        checkpoint = self.granted.checkpoint
        if checkpoint is None or not self.kind.resumable or checkpoint.format != self.kind.resumable:
            return None
        try:
            return self.folder.restore(checkpoint, self.tools.store, before_chunk=self._stop_unwanted)
        except StorageError as error:
            self._stop_unwanted()  # the folder may have gone by now
            if error.is_away:
                raise
            log.warning("%s starts from the beginning: %s", self.name, error)
            remove_folder(self.folder.resume)  # what was fetched before takes up room
            return None

    # --- conclude ---

    async def _conclude(self, ran: Ran) -> None:
        """The job process is dead, and `ran` says how it went."""
        if ran.released is not None:
            await self._release(ran.released, started=ran.started)
            return
        if ran.over:
            await self._let_go()
            return
        trip("job:done")
        outputs: tuple[Output, ...] = ()
        if ran.outputs:
            try:
                outputs = await self._store_outputs(ran.outputs)
            except LostLease:
                await self._let_go()
                return
            except Drained as error:
                await self._release(str(error))
                return
            except StorageError as error:
                ran = Ran.failed(Outcome.TRANSIENT, Failure(message=f"store: {error}", code="storage"))
        await self._settle(ran, outputs)

    async def _store_outputs(self, paths: dict[str, Path]) -> tuple[Output, ...]:
        """U1 to U3: ask, upload under the attempt's own key, verify.

        Raises:
            LostLease: Somebody else owns the job now. What was uploaded stays invisible and is collected.
            Drained: This worker ends, and the store is away.
        """
        stored: dict[str, Output] = {}
        while True:
            await self._fence(paths)
            trip("fence:after-check")
            try:
                for name, path in paths.items():
                    if name not in stored:
                        stored[name] = await self.store_wait.carry(partial(self._put, name, path))
                return tuple(stored.values())
            except LostLease:
                # Told that it is over, or past the own deadline without an answer: ask once more, then start over.
                if self.holding.is_over:
                    raise

    def _put(self, name: str, path: Path) -> Output:
        clock, store = self.tools.clock, self.tools.store
        suffix = plain_suffix(path)
        stored = store.put(
            self._prefix,
            name if name.endswith(suffix) else f"{name}{suffix}",
            path,
            may_go_on=lambda: self.holding.may_act(clock.boot_ms()),
        )
        if store.head(stored.key) != stored.bytes:
            raise StorageError(f"{stored.key} is not what was written")
        return Output(name=name, key=stored.key, sha256=stored.sha256, bytes=stored.bytes)

    async def _fence(self, paths: dict[str, Path]) -> None:
        """Do I still hold it? The ledger's answer first; without one, only the own deadline counts.

        Raises:
            LostLease: No.
            LedgerUnavailable: As `_until_answered`.
        """
        intent = [Output(name=name, key="", sha256="", bytes=path.stat().st_size) for name, path in paths.items()]

        async def ask() -> None:
            sent_ms = self.tools.clock.boot_ms()
            try:
                standing = await self.tools.ledger.standing(self.granted.lease, intent)
            except LedgerUnavailable:
                if self.holding.may_act(self.tools.clock.boot_ms()):
                    return
                if self.holding.is_over:
                    raise LostLease("the lease ended while nobody answered") from None
                raise
            if standing.status != "held":
                self.holding.end(standing)
                raise LostLease(standing.why)
            self.holding.belief = self.holding.belief.answered(sent_ms=sent_ms)

        await self._until_answered("fence check", ask)

    async def _settle(self, ran: Ran, outputs: tuple[Output, ...]) -> None:
        """U4: retried until there is a definite answer; trying late is harmless, the fence decides."""
        request = SettleRequest(
            lease=self.granted.lease,
            outcome=ran.outcome,
            outputs=outputs,
            value=ran.value,
            error=ran.error,
            who=self.tools.who,
        )
        trip("settle:before")
        if ran.outcome is not Outcome.FATAL and self.folder.empty_small():
            await self.successor.looked()
            self.successor.take()
        answer = await self._until_answered("settle", lambda: self.tools.ledger.settle(request))
        trip("settle:answered")
        if answer.status in ("won", "requeued"):
            log.info("%s %s: %s", self.name, ran.outcome, answer.state)
            # Only an accepted Fatal ends the worker: a stale attempt has nothing to say.
            self.failed_fatally = ran.outcome is Outcome.FATAL
            return
        log.warning("%s was refused: %s (%s); nothing of it is visible", self.name, answer.status, answer.why)
        await self._report_stopped()

    async def _release(self, why: str, *, started: bool = True) -> None:
        request = ReleaseRequest(lease=self.granted.lease, why=why, started=started, who=self.tools.who)
        answer = await self._until_answered("hand-back", lambda: self.tools.ledger.release(request))
        log.info("%s handed back: %s", self.name, answer.state or answer.status)
        if answer.status not in ("won", "requeued"):
            await self._report_stopped()

    async def _let_go(self) -> None:
        verdict = self.holding.verdict
        log.warning("%s is over: %s", self.name, f"{verdict.status} ({verdict.why})" if verdict else "lost")
        await self._report_stopped()

    async def _report_stopped(self) -> None:
        """Say that the tree is dead and nothing more gets into the store: its files may be collected for good."""

        async def report() -> None:
            await self.run.stored()
            await self.tools.ledger.stopped(self.granted.lease, self.tools.who)

        await self._until_answered("report", report)

    async def _until_answered(self, what: str, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask until there is a definite answer. Everything asked here is idempotent.

        Raises:
            LedgerUnavailable: This worker ends, and the ledger of its fleet is away.
        """
        asking, run = self._keep_asking(what, ask), self.run
        if not self.tools.is_fleet:  # a file is not away, it is busy
            return await asking
        grace_s = run.options.drain_grace_s
        return await before_the_end(asking, orders=run.orders, clock=self.tools.clock, grace_s=grace_s)

    async def _keep_asking(self, what: str, ask: Callable[[], Awaitable[T]]) -> T:
        for tries in itertools.count():
            try:
                return await ask()
            except LedgerUnavailable as error:
                if tries in (0, 5) or tries % 60 == 0:
                    log.warning("%s: %s unanswered, will ask again: %s", self.name, what, error)
                await self.tools.clock.sleep(RETRY_S[min(tries, len(RETRY_S) - 1)])
        raise AssertionError("counting never ends")
