"""The worker process: takes offers while it has room, and carries each attempt to its end."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path

from planrun.config import Place
from planrun.core.admission import Refused as NoRoom
from planrun.core.errors import LedgerUnavailable
from planrun.core.messages import Granted, GrantRequest, Offer, OfferQuery, Refused, WorkerRow
from planrun.worker.attempt import Attempt, Tools
from planrun.worker.catalog import Catalog
from planrun.worker.complaints import Complaints
from planrun.worker.folder import AttemptFolder
from planrun.worker.gates import Gates, Reservation
from planrun.worker.options import WorkerOptions
from planrun.worker.orders import Orders
from planrun.worker.processes import Processes
from planrun.worker.run import Run

log = logging.getLogger(__name__)

EXIT_UNREACHABLE = 5
EXIT_FATAL = 70
LOOK_S = 5.0
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
        gates: Gates,
        processes: Processes,
        scratch: Path,
        place: Place,
    ) -> None:
        self._options = options
        self._row = row
        self._capabilities = catalog.capabilities
        self._handlers = tuple(handler for handler in catalog.handlers if not handler.missing)
        self._kinds = {(kind.kind, kind.version): kind for kind in catalog.kinds}
        self._tools = tools
        self._ledger = tools.ledger
        self._clock = tools.clock
        self._keeper = tools.keeper
        self._gates = gates
        self._processes = processes
        self._scratch = scratch
        self._place = place
        self._lease_ms = round(options.lease_s * 1000)
        self._orders = Orders()
        self._running: dict[int, asyncio.Task[None]] = {}
        self._ended: OrderedDict[tuple[str, int], None] = OrderedDict()
        self._wake = asyncio.Event()
        self._draining = False
        self._drained = False  # by an operator: what runs goes on
        self._exit_code = 0
        self._file = _identity(place.ledger)
        self._complaints = Complaints(log, tools.clock)

    def drain(self) -> None:
        """Take nothing more and hand back what runs. Called again: at once, as it is."""
        if self._draining:
            self._orders.hurry.set()
        self._draining = True
        self._orders.hand_back.set()
        self._wake.set()

    async def serve(self) -> int:
        """Work until told to stop.

        Returns:
            The exit code: 0 after a drain, whoever asked for it, 70 if a job said that this worker is broken, 5 if the
            ledger's file is gone.
        """
        stop = asyncio.Event()
        keeping = asyncio.create_task(self._keeper.run(stop))
        watching = [asyncio.create_task(self._watch()), asyncio.create_task(self._watch_state())]
        self._processes.prepare()
        try:
            while not (self._draining or self._exit_code):
                self._wake.clear()
                if self._drained and not self._running:
                    break
                if self._drained or not await self._take_work():
                    await self._pause()
            await self._wind_down()
        finally:
            stop.set()
            for task in watching:
                task.cancel()
            await asyncio.gather(keeping, *watching, return_exceptions=True)
            await self._processes.close()
        return self._exit_code

    # --- taking work ---

    async def _take_work(self) -> bool:
        """Fill the free slots. True: something was tried, so it is worth looking again at once."""
        free = self._options.slots - len(self._running)
        if free <= 0 or not self._handlers:
            return False
        query = OfferQuery(
            namespaces=self._options.namespaces,
            handlers=self._handlers,
            capabilities=self._capabilities,
            limit=free + 8,  # others look at the same line; some of these will be gone
        )
        tried = False
        try:
            for offer in await self._ledger.offers(query):
                if len(self._running) >= self._options.slots or self._draining or self._exit_code:
                    break
                if (offer.job_id, offer.attempt) not in self._ended:
                    tried = await self._take(offer) or tried
        except LedgerUnavailable as error:
            self._complaints.say("work", f"worker {self._row.name} cannot take work: {error}")
            return False
        self._complaints.over("work")
        return tried

    async def _take(self, offer: Offer) -> bool:
        """Pass the gates, get the lease, start. True unless this machine has no room for it.

        Raises:
            LedgerUnavailable: There is no telling whether it was granted; if so, the lease runs out.
        """
        kind = self._kinds[offer.kind, offer.version]
        room = await self._gates.admit(kind)
        if isinstance(room, NoRoom):
            self._complaints.say("room", f"worker {self._row.name} leaves job {offer.job_id} to others: {room.why}")
            return False
        asked_ms = self._clock.boot_ms()
        granted: Granted | None = None
        try:
            granted = await self._grant(offer)
        finally:
            if granted is None:
                room.release()
        if granted is None:
            return True
        lease = granted.lease
        holding = self._keeper.hold(lease, asked_ms=asked_ms)
        folder = AttemptFolder(self._scratch, lease.token)
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
        )
        attempt = Attempt(granted, kind, holding, folder, self._tools, run)
        log.info("%s of %s %s starts", attempt.name, offer.kind, offer.version)
        self._running[lease.token] = asyncio.create_task(self._carry(attempt, room))
        return True

    async def _grant(self, offer: Offer) -> Granted | None:
        """Ask for the lease; an unanswered call is made again with the same nonce, so it is granted once."""
        request = GrantRequest(
            job_id=offer.job_id,
            attempt=offer.attempt,
            incarnation=self._row.incarnation,
            nonce=self._clock.new_id(),
            lease_ms=self._lease_ms,
        )
        for tries_left in (2, 1, 0):
            try:
                answer = await self._ledger.grant(request)
                break
            except LedgerUnavailable:
                if not tries_left:
                    raise
        if isinstance(answer, Refused):
            log.debug("job %s attempt %d: %s", offer.job_id, offer.attempt, answer.why)
            if answer.why == "not-ready":
                await self._look_at_state()
            return None
        return answer

    async def _carry(self, attempt: Attempt, room: Reservation) -> None:
        lease = attempt.granted.lease
        try:
            with suppress(LedgerUnavailable):  # it may have been canceled before anybody here listened for that
                await self._keeper.recheck()
            await attempt.carry()
        except Exception:  # a bug in planrun must cost this attempt only; its lease runs out
            log.exception("%s was dropped by a fault of the worker", attempt.name)
        finally:
            del self._running[lease.token]
            self._remember(lease.job_id, lease.attempt)
            room.release()
            if attempt.failed_fatally:
                self._break()
            self._wake.set()

    def _remember(self, job_id: str, attempt: int) -> None:
        """A short memory of what just ended, so that a repeated offer is dropped before any work."""
        self._ended[job_id, attempt] = None
        while len(self._ended) > self._options.dedup_size:
            self._ended.popitem(last=False)

    # --- waiting and ending ---

    async def _pause(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_S):
                await self._wake.wait()

    async def _watch(self) -> None:
        """Somebody changed the ledger: a job may wait, and a lease of ours may be canceled or lost."""
        while True:
            await self._ledger.changed(timeout_s=LOOK_S)
            self._wake.set()
            if _identity(self._place.ledger, unless=self._file) != self._file:
                log.error("the ledger %s was removed or replaced; stopping", self._place.ledger)
                self._abandon(EXIT_UNREACHABLE)
                return
            with suppress(LedgerUnavailable):
                await self._keeper.recheck()
            await self._clock.sleep(BETWEEN_LOOKS_S)

    async def _watch_state(self) -> None:
        while True:
            await self._ledger.changed(timeout_s=LOOK_S, about=self._row.incarnation)
            with suppress(LedgerUnavailable):
                await self._look_at_state()

    async def _look_at_state(self) -> None:
        """Somebody may have drained this worker, or undone that. The ledger grants or refuses all by itself."""
        row = await self._ledger.worker(self._row.incarnation)
        drained = row is not None and row.state == "draining"
        if drained == self._drained:
            return
        if drained:
            log.info("worker %s is drained: it ends when what runs has ended (%d)", self._row.name, len(self._running))
        else:
            log.info("worker %s takes jobs again", self._row.name)
        self._drained = drained
        self._wake.set()

    def _break(self) -> None:
        """A job said that this worker is broken: stop everything, and let the leases run out."""
        log.error("a job reported that this worker is broken; stopping to restart clean")
        self._abandon(EXIT_FATAL)

    def _abandon(self, exit_code: int) -> None:
        self._exit_code = exit_code
        self._orders.abandon.set()
        self._wake.set()

    async def _wind_down(self) -> None:
        state = "broken" if self._exit_code == EXIT_FATAL else "draining"
        log.info("worker %s is %s, %d jobs run", self._row.name, state, len(self._running))
        telling = asyncio.create_task(self._register(state))
        while self._running:
            await asyncio.wait(list(self._running.values()))
        await telling

    async def _register(self, state: str) -> None:
        row = WorkerRow(**{name: getattr(self._row, name) for name in self._row.__struct_fields__} | {"state": state})
        with suppress(LedgerUnavailable):  # for people and routing only; no lease depends on it
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
