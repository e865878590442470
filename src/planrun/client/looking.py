"""Opening a ledger as a client, and the verbs that only look."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from planrun.client.arguments import check_count, check_seconds, check_text
from planrun.client.joblog import LocalLogs, Logs, LogTail
from planrun.client.living import find_dead
from planrun.clock import BlockingClock, Clock, SystemClock
from planrun.config import place_of, url_from
from planrun.core.coverage import Coverage, coverage
from planrun.core.drains import Drain
from planrun.core.errors import Invalid, PlanrunError, ResultGone, UnknownJob
from planrun.core.keeping import Owed, archive_file
from planrun.core.life import State
from planrun.core.listing import ListQuery
from planrun.core.messages import AttemptRow, EventRow, JobRow
from planrun.core.pauses import Pause
from planrun.core.presence import FORGOTTEN_AFTER_MS, Presence, presence
from planrun.core.printed import LogPiece
from planrun.core.requests import is_whole
from planrun.core.why import Why, why
from planrun.ledger.contract import Ledger
from planrun.storage.contract import Store
from planrun.wiring import blocking_view, open_ledger, open_store, remote_logs, silence_ms

ENDED_IN_WORDS = {State.FINISHED: "finished", State.FAILED: "failed", State.CANCELED: "been canceled"}
CURSOR_MAX = 2**63
LOG_END = 2**62  # behind the end of every log
ALIKE_MAX = 5  # ids that are named where a beginning is not enough
_BEGINNING = re.compile(r"[0-9A-Fa-f-]{6,35}")


@dataclass(frozen=True, slots=True)
class JobPage:
    """Jobs, newest first. `before` is the cursor of the next page, None on the last one."""

    jobs: tuple[JobRow, ...]
    before: int | None


class Looking:
    """A client that reads. Base of `AsyncClient`, whose docstring holds for all verbs."""

    def __init__(self, url: str | None = None) -> None:
        self._url = url_from(url)
        self._place = place_of(self._url)
        self._opened: tuple[Ledger, Store] | None = None
        self._clock: Clock = SystemClock.open_system()
        self._owned = True

    @classmethod
    def over(cls, ledger: Ledger, store: Store, *, url: str, clock: Clock) -> Self:
        """A client over a ledger that is open already. Closing the client leaves it open."""
        client = cls(url)
        client._opened = (ledger, store)
        client._clock = clock
        client._owned = False
        return client

    def blocking(self) -> Self | None:
        """The same client for a caller without an event loop: what it only asks of the ledger never suspends.

        None where there is no such view, or where the clock is not the system's.
        """
        if self._opened is None or type(self._clock) is not SystemClock:
            return None
        ledger = blocking_view(self._opened[0])
        if ledger is None:
            return None
        return type(self).over(ledger, self._opened[1], url=self._url, clock=BlockingClock.open_system())

    async def __aenter__(self) -> Self:
        if self._opened is None:
            self._opened = (open_ledger(self._url), open_store(self._url))
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the ledger. A second call does nothing."""
        opened, self._opened = self._opened, None
        if opened is not None and self._owned:
            await opened[0].close()

    @property
    def silence_s(self) -> float:
        """How long an orchestrator owes an answer; 0: it owes none, or there is no orchestrator."""
        return 0.0 if self._opened is None else silence_ms(self._opened[0]) / 1000

    async def show(self, job: str) -> JobRow:
        """One job as the ledger sees it now.

        Raises:
            UnknownJob: No such job.
            ResultGone: It ended long ago, and is in the archive. So do all verbs that name a job.
        """
        return await self._row(job, None)

    async def list(
        self,
        *,
        namespace: str | None = None,
        namespaces: Sequence[str] | None = None,
        kind: str | None = None,
        version: str | None = None,
        state: State | str | None = None,
        key: str | None = None,
        since_s: float | None = None,
        limit: int = 50,
        before: int | None = None,
    ) -> JobPage:
        """A page of jobs, newest first.

        Args:
            namespaces: Only jobs of any of these.
            since_s: Only jobs that were created in the last so many seconds.
            before: The cursor of the page before; None: the newest.

        Raises:
            Invalid: No such state, a limit below 1, or a span that is none.
        """
        check_count("limit", limit)
        if since_s is not None:
            check_seconds("since_s", since_s)
        if before is not None and not (is_whole(before) and abs(before) < CURSOR_MAX):
            raise Invalid(f"before {before!r:.80}: pass the cursor of the page before")
        if state is not None and state not in list(State):
            raise Invalid(f"state {state!r:.80}: use one of {', '.join(State)}")
        for what, text in (("namespace", namespace), ("kind", kind), ("version", version), ("key", key)):
            if text is not None:
                check_text(what, text)
        query = ListQuery(
            namespace=namespace,
            namespaces=None if namespaces is None else tuple(namespaces),
            kind=kind,
            version=version,
            state=None if state is None else State(state),
            key=key,
            since_ms=None if since_s is None else self._clock.now().wall_ms - int(since_s * 1000),
            limit=limit,
            before=before,
        )
        rows, cursor = await self._ledger.jobs(query)
        return JobPage(tuple(rows), cursor)

    async def events(self, job: str) -> Sequence[EventRow]:
        """The permanent history of a job, oldest first."""
        return await self._ledger.events((await self.show(job)).job_id)

    async def attempts(self, job: str) -> Sequence[AttemptRow]:
        """The attempts of a job, oldest first."""
        return await self._ledger.attempts((await self.show(job)).job_id)

    async def logs(self, job: str, *, attempt: int | None = None) -> str:
        """What the job printed; empty if nothing, or if its log lies on another box.

        Args:
            attempt: None: the newest attempt that printed something.

        Raises:
            UnknownJob: No such job.
            Invalid: It had no such attempt.
        """
        row = await self.show(job)
        number = await self._newest_log(row) if attempt is None else attempt_of(row, attempt)
        return await LogTail(self._logs, row, number).read(last=True)

    async def log_piece(self, job: str, *, attempt: int | None = None, after: int = 0) -> LogPiece:
        """What an attempt has printed behind that many bytes.

        Args:
            attempt: As in `logs`.

        Raises:
            UnknownJob: No such job.
            Invalid: It had no such attempt.
        """
        row = await self.show(job)
        number = attempt if attempt is None else attempt_of(row, attempt)
        return await self._logs.log_piece(row, attempt=number, after=after)

    async def _newest_log(self, row: JobRow) -> int:
        """The newest attempt that printed something; else the newest one."""
        return (await self._logs.log_piece(row, attempt=None, after=LOG_END)).attempt

    @property
    def _logs(self) -> Logs:
        return remote_logs(self._ledger) or LocalLogs(self._place, self._ledger, self._store)

    async def why(self, job: str) -> Why:
        """Why a job is not running yet, or where it is: the cause, and one sentence.

        Raises:
            UnknownJob: No such job.
        """
        row = await self.show(job)
        outlook = await self._ledger.outlook(row.job_id)
        if outlook is None:
            raise self._unknown(job)
        now = self._clock.now()
        dead = await find_dead(outlook.workers, wall_ms=now.wall_ms)
        return why(outlook, dead=dead, boot_ms=now.boot_ms, wall_ms=now.wall_ms)

    async def kinds(self) -> Sequence[Coverage]:
        """Each kind and version: its open jobs, and the workers that live and run it."""
        wall_ms = self._clock.now().wall_ms
        open_jobs, workers = await self._ledger.open_jobs(), await self._ledger.workers(wall_ms - FORGOTTEN_AFTER_MS)
        dead = await find_dead(workers, wall_ms=wall_ms)
        return coverage(open_jobs, workers, await self.pauses(), dead=dead)

    async def rates(self) -> dict[str, float]:
        """How many jobs per second may be offered, by kind; kinds without a limit are left out."""
        return await self._ledger.rates()

    async def pauses(self, *, limit: int | None = None) -> Sequence[Pause]:
        """Who paused what and why, newest first.

        Args:
            limit: So many, past ones too; None: those in force.

        Raises:
            Invalid: A limit below 1.
        """
        if limit is not None:
            check_count("limit", limit)
        return await self._ledger.pauses(limit)

    async def drains(self, *, limit: int = 50) -> Sequence[Drain]:
        """Who drained which worker and why, newest first, past ones too.

        Raises:
            Invalid: A limit below 1.
        """
        check_count("limit", limit)
        return await self._ledger.drains(limit)

    async def ended(self, *, within_s: float) -> dict[str, int]:
        """How many jobs ended in the last so many seconds, per state.

        Raises:
            Invalid: Not a span of time.
        """
        check_seconds("within_s", within_s)
        return await self._ledger.ended(self._clock.now().wall_ms - int(within_s * 1000))

    async def counts(self, *, namespace: str | None = None) -> dict[str, int]:
        """Jobs per state."""
        if namespace is not None:
            check_text("namespace", namespace)
        return await self._ledger.counts(namespace)

    async def workers(self) -> Sequence[Presence]:
        """The workers of the last day, the one last seen first: what each runs, and whether it is lost."""
        wall_ms = self._clock.now().wall_ms
        running = await self._ledger.running()
        seen = await self._ledger.workers(wall_ms - FORGOTTEN_AFTER_MS)
        dead = await find_dead(seen, wall_ms=wall_ms)
        return presence(seen, running=running, dead=dead, wall_ms=wall_ms)

    async def owed(self) -> Owed | None:
        """Answers that are sent again and again in vain, and the oldest of them; None: there is none."""
        return await self._ledger.owed()

    async def violations(self) -> Sequence[str]:
        """Broken invariants of the ledger, in words. Empty in a healthy one."""
        return await self._ledger.violations()

    async def _row(self, job: str, namespace: str | None) -> JobRow:
        check_text("job", job)
        if namespace is not None:
            check_text("namespace", namespace)
        row = await self._ledger.job(namespace, job)
        if row is not None:
            return row
        archived = await self._ledger.archived(namespace, job)
        if archived is None and (job_id := await self._id_from(job, namespace)) is not None:
            row = await self._ledger.job(namespace, job_id)
            if row is not None:
                return row
        if archived is None:
            raise self._unknown(job, namespace)
        file = archive_file(archived.ended_at_ms)
        where = f"on the box of {self._place.url}, in {file}" if self._place.is_remote else self._place.archive / file
        raise ResultGone(
            f"{archived.job_id} has {ENDED_IN_WORDS[archived.state]}, and is no longer kept here; "
            f"its record is in the archive: grep {archived.job_id} {where}"
        )

    async def _id_from(self, beginning: str, namespace: str | None) -> str | None:
        """The one id that begins like this; None: there is none, or too little of it is given."""
        if not _BEGINNING.fullmatch(beginning):
            return None
        found = await self._ledger.job_ids(namespace, beginning.lower(), ALIKE_MAX + 1)
        if len(found) > 1:
            more = " and others" if len(found) > ALIKE_MAX else ""
            raise Invalid(f"{beginning} may be {', '.join(found[:ALIKE_MAX])}{more}; give more of the id")
        return found[0] if found else None

    def _unknown(self, job: str, namespace: str | None = None) -> UnknownJob:
        where = "" if namespace is None else f" in namespace {namespace}"
        return UnknownJob(f"no job or request {job}{where} in {self._place.shown}; `planrun list` shows all")

    @property
    def _ledger(self) -> Ledger:
        return self._parts()[0]

    @property
    def _store(self) -> Store:
        return self._parts()[1]

    def _parts(self) -> tuple[Ledger, Store]:
        if self._opened is None:
            raise PlanrunError("this client is not open: use it inside `async with AsyncClient(…) as planrun:`")
        return self._opened


def attempt_of(row: JobRow, attempt: int) -> int:
    """One attempt of a job, by its number.

    Raises:
        Invalid: It had no such attempt.
    """
    if not is_whole(attempt) or not 1 <= attempt <= row.attempt:
        raise Invalid(f"{row.job_id} has attempts 1 to {row.attempt}, no attempt {attempt!r:.80}")
    return attempt
