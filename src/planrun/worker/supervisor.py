"""The worker process: takes offers while it has room, and carries each attempt to its end."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import partial
from pathlib import Path

from planrun.complaints import Complaints
from planrun.config import Place
from planrun.core.admission import Refused as NoRoom
from planrun.core.coverage import left_without
from planrun.core.errors import LedgerUnavailable, LedgerUnusable
from planrun.core.life import Outcome
from planrun.core.messages import Failure, Lease, SettleRequest, WorkerRow
from planrun.lockfile import seems_dead
from planrun.service import Returns
from planrun.transport.contract import Delivery, WorkerTransport
from planrun.worker.attempt import Attempt, Tools
from planrun.worker.catalog import Catalog
from planrun.worker.folder import AttemptFolder
from planrun.worker.gates import Gates, Reservation
from planrun.worker.keeper import Keeper
from planrun.worker.last_words import LAST_WORD_S, MOMENT_S
from planrun.worker.options import WorkerOptions
from planrun.worker.orders import Orders
from planrun.worker.pool import Pool
from planrun.worker.run import Run
from planrun.worker.taking import Successor, Taken, Taking, give_back

log = logging.getLogger(__name__)

EXIT_UNREACHABLE = 5
EXIT_FATAL = 70
LOOK_S = 5.0
LOOP = "take jobs"
BETWEEN_LOOKS_S = 0.01


class Supervisor:
    """One worker incarnation over ports that are already open. `serve` runs it."""

    def __init__(
        self,
        options: WorkerOptions,
        *,
        row: WorkerRow,
        catalog: Catalog,
        tools: Tools,
        transport: WorkerTransport,
        gates: Gates,
        processes: Pool,
        scratch: Path,
        place: Place,
    ) -> None:
        self._options = options
        self._row = row
        self._has_handlers = any(not handler.missing for handler in catalog.handlers)
        self._kinds = {(kind.kind, kind.version): kind for kind in catalog.kinds}
        self._tools = tools
        self._ledger = tools.ledger
        self._clock = tools.clock
        self._keeper = tools.keeper
        self._gates = gates
        self._processes = processes
        self._scratch = scratch
        self._place = place
        self._transport = transport
        self._taking = Taking(self._ledger, transport, self._clock, options, row.incarnation)
        self._orders = Orders()
        self._running: dict[int, asyncio.Task[None]] = {}
        self._wake = asyncio.Event()
        self._recheck = asyncio.Event()
        self._told_to_end = asyncio.Event()
        self._draining = False
        self._drained = False  # by an operator: what runs goes on
        self._exit_code = 0
        self._file = _identity(place.ledger)
        self._complaints = Complaints(log, tools.clock)

    @property
    def keeper(self) -> Keeper:
        """Of its leases."""
        return self._keeper

    @property
    def returns(self) -> Returns:
        """By when each of its loops comes back."""
        return self._keeper.returns

    def drain(self) -> None:
        """Take nothing more and hand back what runs. Called again: at once, as it is."""
        self._orders.give(hand_back_ms=self._clock.boot_ms(), hurry=self._draining)
        self._draining = True
        self._end()

    async def serve(self) -> int:
        """Work until told to stop.

        Returns:
            The exit code: 0 after a drain, whoever asked for it, 70 if a job said that this worker is broken, 5 if the
            ledger's file is gone.
        """
        stop = asyncio.Event()
        keeping = asyncio.create_task(self._keeper.run(stop))
        watches = (self._watch(), self._keep_listening())
        watching = [asyncio.create_task(watch) for watch in watches]
        self._processes.prepare()
        try:
            await self._take_until_over()
            self.returns.leave(LOOP)
            await self._wind_down()
        finally:
            stop.set()
            for task in (keeping, *watching):
                task.cancel()
            await asyncio.gather(keeping, *watching, return_exceptions=True)
            await self._processes.close()
        return self._exit_code

    async def _take_until_over(self) -> None:
        """Take work until told to end. A question that nobody answers then is dropped: its lease runs out."""
        taking = asyncio.create_task(self._keep_taking())
        told = asyncio.create_task(self._told_to_end.wait())
        try:
            await asyncio.wait({taking, told}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({taking}, timeout=MOMENT_S)
            if taking.done():
                taking.result()
        finally:
            told.cancel()
            taking.cancel()
            await asyncio.wait({taking})

    async def _keep_taking(self) -> None:
        while not self._is_over():
            self._wake.clear()
            self.returns.say(LOOP, self._clock.boot_ms())
            if not await self._take_work():
                await self._pause()

    # --- taking work ---

    async def _take_work(self) -> bool:
        """Fill the free slots. True: something was tried, so it is worth looking again at once."""
        tried = False
        deliveries: list[Delivery] = []
        try:
            deliveries = await self._taking.offers(self._free())
            while deliveries and self._free():
                tried = await self._take(deliveries.pop(0)) or tried
        except LedgerUnavailable as error:
            self._complaints.say("work", f"worker {self._row.name} cannot take work: {error}")
            return False
        except LedgerUnusable as error:
            log.error("worker %s takes no more work, and ends once what it runs has ended: %s", self._row.name, error)
            self._exit_code = EXIT_UNREACHABLE
            return False
        finally:
            await give_back(deliveries)
        self._complaints.over("work")
        return tried

    def _free(self) -> int:
        """How many jobs could start now."""
        return max(0, self._options.slots - len(self._running)) if self._has_handlers and self._may_take() else 0

    async def _take(self, delivery: Delivery) -> bool:
        """Pass the gates, get the lease, start. True unless this machine has no room for it.

        Raises:
            LedgerUnavailable: There is no telling whether it was granted; if so, the lease runs out.
        """
        offer = delivery.offer
        kind = self._kinds.get((offer.kind, offer.version))
        if kind is None:
            await delivery.strange(f"worker {self._row.name} runs no {offer.kind} {offer.version}")
            return True
        room = await self._gates.admit(kind)
        if isinstance(room, NoRoom):
            self._complaints.say("room", f"worker {self._row.name} leaves job {offer.job_id} to others: {room.why}")
            await delivery.back()
            return False
        taken: Taken | None = None
        try:
            taken = await self._taking.grant(self._taking.asking([delivery]))
        finally:
            if taken is None:
                room.release()
        if taken is not None:
            self._begin(taken, room=room)
        return True

    def _begin(self, taken: Taken, *, room: Reservation, folder: AttemptFolder | None = None) -> None:
        """Start an attempt.

        Args:
            folder: An empty one that the attempt before has left.
        """
        granted = taken.granted
        lease = granted.lease
        kind = self._kinds[granted.kind, granted.version]
        holding = self._keeper.hold(lease, asked_ms=taken.asked_ms)
        self._recheck.set()  # it may have been canceled before anybody here listened for that
        folder = AttemptFolder(self._scratch, lease.token, instead_of=folder)
        successor = Successor(
            self._taking,
            self._gates,
            kind=kind,
            room=room,
            may_follow=self._may_take,
            begin=partial(self._begin, room=room, folder=folder),
        )
        run = Run(
            kind=kind,
            folder=folder,
            log_file=self._place.log_of(lease.job_id, lease.attempt),
            holding=holding,
            orders=self._orders,
            options=self._options,
            processes=self._processes,
            ledger=self._ledger,
            clock=self._clock,
            room=room,
            successor=successor,
        )
        attempt = Attempt(granted, kind, holding, folder, self._tools, run, successor)
        log.info("%s of %s %s starts", attempt.name, granted.kind, granted.version)
        self._running[lease.token] = asyncio.create_task(self._carry(attempt, room))

    async def _carry(self, attempt: Attempt, room: Reservation) -> None:
        lease = attempt.granted.lease
        try:
            await attempt.carry()
        except (LedgerUnavailable, LedgerUnusable) as error:
            log.error("%s was dropped: %s", attempt.name, error)
        except Exception as fault:  # a bug in planrun must cost this attempt only
            log.exception("%s was dropped by a fault of the worker", attempt.name)
            await self._own_up(lease, fault)
        finally:
            self._taking.remember(lease)
            if attempt.failed_fatally:
                self._break()
            has_come = await attempt.successor.has_come()
            del self._running[lease.token]
            if not has_come:
                room.release()
                self._wake.set()

    async def _own_up(self, lease: Lease, fault: Exception) -> None:
        """Let the job go on soon, and its sender know why. Where that fails, too, the lease runs out."""
        words = f"a fault of worker {self._row.name} ({type(fault).__name__}); its log says more"
        why = Failure(message=words, code="worker")
        request = SettleRequest(lease=lease, outcome=Outcome.TRANSIENT, error=why, who=self._row.name)
        try:
            async with asyncio.timeout(LAST_WORD_S):
                await self._ledger.settle(request)
        except Exception as error:
            log.warning("job %s attempt %d: nor could that be said: %r", lease.job_id, lease.attempt, error)

    def _may_take(self) -> bool:
        return not (self._draining or self._drained or self._exit_code)

    def _is_over(self) -> bool:
        return bool(self._draining or self._exit_code or (self._drained and not self._running))

    # --- waiting and ending ---

    async def _pause(self) -> None:
        self.returns.say(LOOP, self._clock.boot_ms() + round(LOOK_S * 1000))
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_S):
                await self._wake.wait()

    async def _watch(self) -> None:
        """Something has happened: a job may wait, and a lease of ours may be canceled or lost."""
        while True:
            await self._transport.changed(timeout_s=LOOK_S)
            if self._free():
                self._wake.set()
            if _identity(self._place.ledger, unless=self._file) != self._file:
                log.error("the ledger %s was removed or replaced; stopping", self._place.ledger)
                self._abandon(EXIT_UNREACHABLE)
                return
            self._recheck.set()
            await self._clock.sleep(BETWEEN_LOOKS_S)

    def _set_drained(self, drained: bool) -> None:
        """Somebody has drained this worker, or has undone that. What is granted, the ledger alone decides."""
        if drained != self._drained:
            self._drained = drained
            after = f"is drained: it ends when what runs has ended ({len(self._running)})"
            log.info("worker %s %s", self._row.name, after if drained else "takes jobs again")
            self._wake.set()

    async def _keep_listening(self) -> None:
        while True:
            await self._recheck.wait()
            self._recheck.clear()
            try:
                notices = await self._transport.notices(self._keeper.leases)
                await self._keeper.hear(notices)
                for notice in notices:
                    if notice.drained is not None:
                        self._set_drained(notice.drained)
            except LedgerUnusable as error:
                log.error("stopping: %s", error)
                self._abandon(EXIT_UNREACHABLE)
                return
            except LedgerUnavailable:
                pass  # said by whoever asked for something
            await self._clock.sleep(BETWEEN_LOOKS_S)

    def _break(self) -> None:
        """A job said that this worker is broken: stop everything, and let the leases run out."""
        log.error("a job reported that this worker is broken; stopping to restart clean")
        self._abandon(EXIT_FATAL)

    def _abandon(self, exit_code: int) -> None:
        self._exit_code = exit_code
        self._orders.give(abandon=True)
        self._end()

    def _end(self) -> None:
        self._told_to_end.set()
        self._wake.set()

    async def _wind_down(self) -> None:
        state = "broken" if self._exit_code == EXIT_FATAL else "draining"
        log.info("worker %s is %s, %d jobs run", self._row.name, state, len(self._running))
        with suppress(LedgerUnavailable, LedgerUnusable, TimeoutError):
            async with asyncio.timeout(MOMENT_S):
                await self._transport.offers(0)
        telling = asyncio.create_task(self._say_goodbye(state))
        while self._running:
            await asyncio.wait(list(self._running.values()))
        await telling

    async def _say_goodbye(self, state: str) -> None:
        """For people and routing only; no lease depends on it."""
        with suppress(LedgerUnavailable, LedgerUnusable, TimeoutError):
            async with asyncio.timeout(LAST_WORD_S):
                await self._register(state)
                workers = [row for row in await self._ledger.workers() if row.incarnation != self._row.incarnation]
                open_jobs, leaving = await self._ledger.open_jobs(), {self._row.incarnation}
            wall_ms = self._clock.now().wall_ms
            dead = {row.incarnation for row in workers if seems_dead(row, wall_ms=wall_ms)}
            for text in left_without(open_jobs, [*workers, self._row], leaving, dead=dead):
                log.warning("%s", text)

    async def _register(self, state: str) -> None:
        row = WorkerRow(**{name: getattr(self._row, name) for name in self._row.__struct_fields__} | {"state": state})
        await self._ledger.register(row)


def _identity(path: Path, unless: tuple[int, int] | None = None) -> tuple[int, int] | None:
    """Which file lies there; None: there is none. `unless` where nobody can tell right now."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    except OSError:
        return unless
    return status.st_dev, status.st_ino
