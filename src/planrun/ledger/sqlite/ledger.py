"""The port of the ledger over one SQLite file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import apsw
from msgspec import structs

from planrun.clock import Clock
from planrun.config import Place
from planrun.core.coverage import OpenJobs
from planrun.core.drains import Drain, DrainRequest
from planrun.core.errors import Invalid, LedgerUnavailable
from planrun.core.history import What
from planrun.core.keeping import Archived, Garbage, Keep, Owed, Record, Stale
from planrun.core.listing import ListQuery
from planrun.core.messages import (
    AttemptRow,
    CancelReply,
    CancelRequest,
    CheckpointRequest,
    Due,
    EventRow,
    Granted,
    GrantRequest,
    JobRow,
    Lease,
    Message,
    Output,
    Refused,
    ReleaseRequest,
    RenewRequest,
    Result,
    Settled,
    SettleRequest,
    Standing,
    SubmitReply,
    SubmitRequest,
    WorkerRow,
)
from planrun.core.offers import Offer, OfferQuery
from planrun.core.pauses import Pause, PauseRequest
from planrun.core.routes import EMBEDDED, Outlets
from planrun.core.why import Outlook
from planrun.ledger.hands import Hands
from planrun.ledger.sqlite.answer import Answer
from planrun.ledger.sqlite.database import connect, refusals_in_words, refuse_unsafe
from planrun.ledger.sqlite.identity import Identity
from planrun.ledger.sqlite.migrating import is_current, migrate
from planrun.ledger.sqlite.reader import Reader
from planrun.ledger.sqlite.thread import THREADED
from planrun.ledger.sqlite.writer import Writer
from planrun.ledger.tx import Tx
from planrun.ledger.verbs import (
    answers,
    draining,
    duties,
    ending,
    fleet,
    holding,
    intake,
    listing,
    outlook,
    pausing,
    reading,
    retention,
)

T = TypeVar("T")

WAIT_S = 10.0


class SqliteLedger:
    """One process's handle on the file. Made by `open_sqlite`; used from one event loop."""

    def __init__(
        self,
        place: Place,
        clock: Clock,
        *,
        wait_s: float = WAIT_S,
        outlets: Outlets = EMBEDDED,
        hands: Hands = THREADED,
    ) -> None:
        """Open the file, creating or migrating it.

        Args:
            wait_s: How long a write may wait for its turn before it is answered with LedgerBusy.
            outlets: Where its answers can be sent; a submit that wants another way is refused.
            hands: Who writes and rings, and where turns are taken.

        Raises:
            LedgerUnusable: The file must not be opened here; the text says why.
        """
        self._place = place
        self._clock = clock
        self._wait_s = wait_s
        self._outlets = outlets
        with refusals_in_words(place.ledger):
            refuse_unsafe(place)
            is_up_to_date = place.ledger.exists() and is_current(place.ledger)  # refused: nothing is made beside it
            self._turnstile = hands.turn(place.turn)
            connection = connect(place.ledger) if is_up_to_date else self._bring_up_to_date(wait_s)
            self._wakeup = hands.bells(place.wake, place.wakes)
            self._file = Identity(place.ledger)
            self._reader = Reader(place.ledger, self._file, clock)
        self._writer = Writer(
            connection,
            place.ledger,
            self._file,
            turnstile=self._turnstile,
            wakeup=self._wakeup,
            clock=clock,
            on_epoch=duties.adopt_epoch,
            hand=hands.hand,
        )
        self._connection = connection

    def _bring_up_to_date(self, wait_s: float) -> apsw.Connection:
        """In turn. One that is up to date is opened without it, so that whoever has the turn keeps no reader out."""
        path = self._place.ledger
        with self._turnstile.turn(wait_s=wait_s):
            connection = connect(path)
            migrate(connection, path)
        return connection

    # --- clients ---

    async def submit(self, requests: Sequence[SubmitRequest]) -> list[SubmitReply]:
        self._outlets.check(route for request in requests for route in request.subscribers)
        return await self._write(partial(intake.submit, requests=requests, is_warm=self._is_warm()))

    async def cancel(self, request: CancelRequest) -> CancelReply:
        return await self._write(partial(ending.cancel, request=request))

    async def job(self, namespace: str | None, job_id: str) -> JobRow | None:
        return await self._glance(partial(reading.job, namespace=namespace, job_id=job_id))

    async def result(self, job_id: str) -> Result | None:
        return await self._glance(partial(answers.find_result, job_id=job_id))

    async def archived(self, namespace: str | None, job_id: str) -> Archived | None:
        return await self._read(partial(retention.archived, namespace=namespace, job_id=job_id))

    async def jobs(self, query: ListQuery) -> tuple[list[JobRow], int | None]:
        return await self._read(partial(listing.jobs, query=query))

    async def attempts(self, job_id: str) -> list[AttemptRow]:
        return await self._read(partial(reading.attempts, job_id=job_id))

    async def events(self, job_id: str) -> list[EventRow]:
        return await self._read(partial(reading.events, job_id=job_id))

    async def outlook(self, job_id: str) -> Outlook | None:
        return await self._read(partial(outlook.outlook, job_id=job_id))

    async def open_jobs(self) -> list[OpenJobs]:
        return await self._read(outlook.open_jobs)

    async def pauses(self, limit: int | None) -> list[Pause]:
        return await self._read(partial(pausing.pauses, limit=limit) if limit else pausing.open_pauses)

    async def pause(self, request: PauseRequest) -> bool:
        return await self._write(partial(pausing.pause, request=request))

    async def resume(self, request: PauseRequest) -> bool:
        return await self._write(partial(pausing.resume, request=request))

    async def rates(self) -> dict[str, float]:
        return await self._read(fleet.rates)

    async def set_rate(self, kind: str, per_s: float | None) -> None:
        raise Invalid("workers take jobs from this ledger at their own rate; an orchestrator with a broker has rates")

    async def workers(self, since_ms: int = 0) -> list[WorkerRow]:
        return await self._read(partial(fleet.workers, since_ms=since_ms))

    async def running(self) -> dict[str, int]:
        return await self._read(fleet.running)

    async def drain(self, request: DrainRequest) -> list[str]:
        return await self._write(partial(draining.drain, request=request))

    async def undrain(self, request: DrainRequest) -> list[str]:
        return await self._write(partial(draining.undrain, request=request))

    async def drains(self, limit: int) -> list[Drain]:
        return await self._read(partial(draining.drains, limit=limit))

    async def job_ids(self, namespace: str | None, prefix: str, limit: int) -> list[str]:
        return await self._read(partial(reading.job_ids, namespace=namespace, prefix=prefix, limit=limit))

    async def ended(self, since_ms: int) -> dict[str, int]:
        return await self._read_apart(partial(reading.ended, since_ms=since_ms))

    async def counts(self, namespace: str | None) -> dict[str, int]:
        return await self._read(partial(reading.counts, namespace=namespace))

    async def owed(self) -> Owed | None:
        return await self._read_apart(reading.owed)

    async def violations(self) -> list[str]:
        return await self._read_apart(reading.violations)

    # --- workers ---

    async def register(self, worker: WorkerRow, *, may_shorten: bool = True) -> None:
        await self._write(partial(fleet.register, worker=worker, may_shorten=may_shorten), urgent=True)

    async def worker(self, incarnation: str) -> WorkerRow | None:
        return await self._glance(partial(fleet.worker, incarnation=incarnation))

    async def offers(self, query: OfferQuery) -> list[Offer]:
        return await self._glance(partial(fleet.offers, query=query))

    async def grant(self, request: GrantRequest) -> Granted | Refused:
        return await self.grant_first([request])

    async def grant_first(self, requests: Sequence[GrantRequest]) -> Granted | Refused:
        asked = [structs.replace(each, lease_ms=self._lease_ms(each.lease_ms)) for each in requests]
        return await self._write(partial(holding.grant_first, requests=asked))

    async def renew(self, request: RenewRequest) -> list[Standing]:
        [standings] = await self._renew([request])
        return standings

    async def standing(self, lease: Lease, intent: Sequence[Output]) -> Standing:
        return await self._write(partial(holding.standing, lease=lease, intent=intent), urgent=True)

    async def held(self, incarnation: str) -> list[Lease]:
        return await self._glance(partial(reading.held, incarnation=incarnation))

    async def checkpoint(self, request: CheckpointRequest) -> Standing:
        return await self._write(partial(holding.checkpoint, request=request), urgent=True)

    async def settle(self, request: SettleRequest) -> Settled:
        return await self._write(partial(ending.settle, request=request))

    async def release(self, request: ReleaseRequest) -> Settled:
        return await self._write(partial(ending.release, request=request), urgent=True)

    async def stopped(self, lease: Lease, who: str) -> None:
        await self._write(partial(holding.stopped, lease=lease, who=who))

    async def bury_own(self, incarnation: str, *, secret: str, who: str) -> int | None:
        verb = partial(duties.bury_own, incarnation=incarnation, secret=secret, who=who)
        return await self._write(verb, urgent=True)

    async def live_tokens(self, tokens: Sequence[int]) -> set[int]:
        return await self._glance(partial(duties.live_tokens, tokens=tokens))

    # --- duties ---

    async def due(self) -> Due:
        return await self._glance(duties.due)

    async def adopt_epoch(self) -> int:
        return await self._write(duties.adopt_epoch)

    async def expire(self, *, stamp_ms: int, incarnation: str | None = None) -> int:
        return await self._write(partial(self._expire, stamp_ms=stamp_ms, incarnation=incarnation))

    async def bury(self, incarnation: str, *, who: str) -> int:
        return await self._write(partial(duties.bury, incarnation=incarnation, who=who), urgent=True)

    async def promote(self) -> int:
        return await self._write(duties.promote)

    async def end_overdue(self) -> int:
        return await self._write(duties.end_overdue)

    async def end_unsupported(self, *, waited_ms: int, waited_ms_max: int | None = None) -> int:
        # A million jobs in line take seconds to look through: not inside a transaction that keeps heartbeats out,
        # nor in the way of this process's own reads.
        look = partial(fleet.unsupported, waited_ms=waited_ms, waited_ms_max=waited_ms_max)
        groups = await self._read_apart(look)
        if not groups:
            return 0
        return await self._write(
            partial(fleet.end_unsupported, groups=groups, waited_ms=waited_ms, waited_ms_max=waited_ms_max)
        )

    async def take_messages(self, *, limit: int, retry_ms: int) -> list[Message]:
        return await self._write(partial(duties.take_messages, limit=limit, retry_ms=retry_ms))

    async def confirm(self, msg_id: str, *, what: What | None = None, detail: str = "") -> None:
        await self._write(partial(answers.confirm, msg_id=msg_id, what=what, detail=detail))

    async def park(self, msg_id: str, *, detail: str) -> bool:
        return await self._write(partial(retention.park, msg_id=msg_id, detail=detail))

    async def holder_of(self, namespace: str, name: str) -> str | None:
        return await self._read(partial(answers.holder_of, namespace=namespace, name=name))

    async def garbage(self, *, grace_ms: int, limit: int, visited: Collection[int] = ()) -> list[Garbage]:
        return await self._read(partial(duties.garbage, grace_ms=grace_ms, limit=limit, visited=visited))

    async def collected(self, lease: Lease) -> None:
        await self._write(partial(duties.collected, lease=lease))

    async def doubt(self) -> int:
        return await self._write(retention.doubt)

    async def keep(self, keep: Keep) -> None:
        await self._write(partial(retention.keep, keep=keep))

    async def stale(self, *, limit: int) -> Stale:
        # Jobs that are held back by a receiver that is gone are looked through, too: not in the way of other reads.
        return await self._read_apart(partial(retention.stale, limit=limit))

    async def records(self, job_ids: Sequence[str]) -> list[Record]:
        return await self._read_apart(partial(retention.records, job_ids=job_ids))

    async def drop(self, stale: Stale, *, archived: Mapping[str, int]) -> Stale:
        return await self._write(partial(retention.drop, stale=stale, archived=archived))

    async def backup(self, path: str) -> None:
        await self._reader.back_up(Path(path))

    async def changed(self, *, timeout_s: float, about: str | None = None) -> None:
        await self._wakeup.changed(timeout_s=timeout_s, about=about)

    async def close(self) -> None:
        """Finish what is queued, then let go of the file."""
        ended = await asyncio.get_running_loop().run_in_executor(None, self._writer.close)
        self._reader.close()
        if ended:  # else its descriptors stay open: under their numbers it would write into files of others
            self._wakeup.close()
            self._connection.close()
            self._turnstile.close()

    # --- inside ---

    async def _renew(self, requests: Sequence[RenewRequest]) -> list[list[Standing]]:
        asked = [structs.replace(each, lease_ms=self._lease_ms(each.lease_ms)) for each in requests]
        return await self._write(partial(holding.renew, requests=asked), urgent=True)

    def _is_warm(self) -> bool:
        """Did whoever could run jobs have the time to register? On one box they come and go with their ledger."""
        return True

    def _lease_ms(self, asked_ms: int) -> int:
        """How long a lease is here, for a holder that allows itself so much. On one box there is one clock."""
        return asked_ms

    def _expire(self, tx: Tx, *, stamp_ms: int, incarnation: str | None) -> int:
        """Not while holders could not renew because of the file: then this only finds out that it can be written.

        It is asked a little ahead, too. What was written then is what is known of the file when the lease ends.
        """
        ended = duties.expire(tx, stamp_ms=stamp_ms, incarnation=incarnation) if self._writer.is_settled() else 0
        return ended or duties.knock(tx)

    async def _write(self, verb: Callable[[Tx], T], *, urgent: bool = False) -> T:
        answer: Answer[T] = self._writer.call(verb, urgent=urgent)
        await answer.arrive(self._wait_s)
        return self._answered(answer)

    def _answered(self, answer: Answer[T]) -> T:
        """The answer of the writer, or what is to be said if there is none.

        Raises:
            LedgerBusy: Certainly nothing was done.
            LedgerUnavailable: Nobody knows.
        """
        if answer.done:
            return answer.result()
        if answer.claim():
            raise self._turnstile.busy(self._wait_s)
        raise LedgerUnavailable(
            f"{self._place.ledger} has not answered for {self._wait_s:g} s: the call may or may not be done; "
            "make it again, that is safe"
        )

    async def _glance(self, query: Callable[[Tx], T]) -> T:
        return await self._reader.glance(query)

    async def _read(self, query: Callable[[Tx], T]) -> T:
        return await self._reader.read(query)

    async def _read_apart(self, query: Callable[[Tx], T]) -> T:
        return await self._reader.read_apart(query)
