"""All verbs of the client, async, over the port of the ledger."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, Unpack

from planrun.client.answer import Answer, answer_of
from planrun.client.content import Asked, Submit, SubmitOptions, ask, timeout_ms
from planrun.client.handle import AsyncJobHandle
from planrun.clock import Clock, SystemClock
from planrun.config import place_of, url_from
from planrun.core.errors import (
    Invalid,
    LedgerBusy,
    LedgerUnavailable,
    PlanrunError,
    ResultGone,
    UnknownJob,
    WaitTimeout,
)
from planrun.core.life import ENDED, State
from planrun.core.messages import (
    AttemptRow,
    CancelReply,
    CancelRequest,
    EventRow,
    JobRow,
    ListQuery,
    SubmitReply,
    SubmitRequest,
    WorkerRow,
)
from planrun.ledger.contract import Ledger
from planrun.orchestrator.sweeper import Sweeper
from planrun.storage.contract import Store
from planrun.wiring import open_ledger, open_store

SLICE = 100  # jobs per transaction of a bulk submit: renewals get in between
TEND_EVERY_S = 2.0  # at least; at once when a lease or deadline is known to end
LOOK_AT_LEAST_EVERY_S = 5.0  # should a wake-up ever be missed
SUBMIT_TIMEOUT_S = 30.0
_PAUSES_S = (0.05, 0.1, 0.25, 0.5, 1.0)


@dataclass(frozen=True, slots=True)
class JobPage:
    """Jobs, newest first. `before` is the cursor of the next page, None on the last one."""

    jobs: tuple[JobRow, ...]
    before: int | None


class AsyncClient:
    """Submit jobs, wait for their answers, cancel them and look at them.

        async with AsyncClient("sqlite:///media.db") as planrun:
            job = await planrun.submit("preview", inputs={"upload": "in/42.mov"}, key="video-42/preview")
            answer = await job.wait(timeout_s=900)

    Every verb that takes an id takes the job's id or a request id that led to it.

    Args:
        url: Where planrun lives; None: PLANRUN_URL, else `sqlite:///planrun.db`.

    Raises (every verb):
        LedgerUnavailable: No definite answer; asking again is safe.
        LedgerUnusable: This file must not be opened; says why.
    """

    def __init__(self, url: str | None = None) -> None:
        self._url = url_from(url)
        self._place = place_of(self._url)
        self._opened: tuple[Ledger, Store] | None = None
        self._clock: Clock = SystemClock.open_system()
        self._owned = True
        self._waiters = 0
        self._tender: asyncio.Task[None] | None = None

    @classmethod
    def over(cls, ledger: Ledger, store: Store, *, url: str, clock: Clock) -> Self:
        """A client over a ledger that is open already. Closing the client leaves it open."""
        client = cls(url)
        client._opened = (ledger, store)
        client._clock = clock
        client._owned = False
        return client

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

    # --- asking for work ---

    async def submit(
        self, kind: str, *, timeout_s: float = SUBMIT_TIMEOUT_S, **options: Unpack[SubmitOptions]
    ) -> AsyncJobHandle:
        """Hand a job in.

        Args:
            kind: What to run.
            timeout_s: How long an unreachable ledger is asked again, always with the same request id.
            options: See `Submit`.

        Raises:
            Invalid: Something in the call cannot be right. Nothing was submitted.
            Conflict: The request id or key was used for other content. The first job is untouched.
            LedgerUnavailable: Still no answer; the text names the request id to try again with.
        """
        [handle] = await self.submit_many([Submit(kind, **options)], timeout_s=timeout_s)
        return handle

    async def submit_many(
        self, submits: Iterable[Submit], *, timeout_s: float = SUBMIT_TIMEOUT_S
    ) -> Sequence[AsyncJobHandle]:
        """Hand many jobs in, in slices of 100 so that running jobs keep their leases. All are checked first.

        Each slice is taken in whole or not at all. Submits that carry a `request_id` can simply be handed
        in again after an error.

        Args:
            timeout_s: For each slice, as in `submit`.

        Raises:
            Invalid, Conflict, LedgerUnavailable: As `submit`. Earlier slices have been taken in.
        """
        wall_ms = self._clock.now().wall_ms
        requests = []
        for submit in submits:
            if not isinstance(submit, Submit):
                raise Invalid(f"pass a Submit for each job, not {submit!r:.80}")
            asked = ask(submit, request_id=self._clock.new_id(), wall_ms=wall_ms)
            requests.append(await self._admitted(asked))
        handles: list[AsyncJobHandle] = []
        for start in range(0, len(requests), SLICE):
            replies = await self._submit_slice(requests[start : start + SLICE], timeout_s)
            handles += [AsyncJobHandle(self, reply.job_id, reply.disposition) for reply in replies]
        return handles

    async def _admitted(self, asked: Asked) -> SubmitRequest:
        """The request, unless an input cannot be read and the ledger does not know the call yet."""
        request = asked.request
        if asked.unreadable and await self._ledger.job(request.namespace, request.request_id) is None:
            raise Invalid(asked.unreadable)
        return request

    async def _submit_slice(self, requests: Sequence[SubmitRequest], timeout_s: float) -> Sequence[SubmitReply]:
        until_ms = self._clock.boot_ms() + timeout_ms(timeout_s)
        certain = True  # every try so far was certainly not done
        tries = 0
        while True:
            try:
                return await self._ledger.submit(requests)
            except LedgerUnavailable as error:
                certain = certain and isinstance(error, LedgerBusy)
                pause_s = _PAUSES_S[min(tries, len(_PAUSES_S) - 1)]
                if self._clock.boot_ms() + pause_s * 1000 > until_ms:
                    text = f"{error}; {_again(requests)}"
                    if isinstance(error, LedgerBusy) and certain:
                        raise LedgerBusy(text, holder_pid=error.holder_pid) from error
                    raise LedgerUnavailable(text) from error
            await self._clock.sleep(pause_s)
            tries += 1

    async def cancel(self, job: str, *, why: str = "", who: str = "") -> CancelReply:
        """End a job for every caller, at once. An ended job stays as it is, and the reply says so.

        Raises:
            UnknownJob: No such job.
        """
        row = await self.show(job)
        return await self._ledger.cancel(CancelRequest(namespace=row.namespace, job_id=row.job_id, who=who, why=why))

    # --- the answer ---

    async def job(self, job: str, *, namespace: str | None = None) -> AsyncJobHandle:
        """The handle of a job that was submitted before.

        Args:
            job: Job id or request id.
            namespace: Where to look; None: everywhere.

        Raises:
            UnknownJob: No such job.
        """
        row = await self._row(job, namespace)
        return AsyncJobHandle(self, row.job_id, "known")

    async def wait(
        self, job: str, *, timeout_s: float | None = None, on_change: Callable[[JobRow], None] | None = None
    ) -> Answer:
        """Wait until a job has ended. The answer is the same for everyone, and never changes.

        Waiting costs nothing, and needs no worker: a job whose deadline passes ends although none lives.

        Args:
            timeout_s: Give up after so many seconds; 0: only look; None: wait for ever.
            on_change: Called with the job whenever it may have changed.

        Raises:
            Invalid: A timeout that cannot be right.
            UnknownJob: No such job; at once.
            WaitTimeout: It has not ended yet. It goes on.
            ResultGone: It ended, but its result is no longer kept.
        """
        until_ms = None if timeout_s is None else self._clock.boot_ms() + timeout_ms(timeout_s)
        row = await self._row(job, None)
        async with self._tended():
            while row.state not in ENDED:
                if on_change is not None:
                    on_change(row)
                pause_s = LOOK_AT_LEAST_EVERY_S
                if until_ms is not None:
                    pause_s = min(pause_s, (until_ms - self._clock.boot_ms()) / 1000)
                    if pause_s <= 0:
                        raise WaitTimeout(f"{row.job_id} is still {row.state} after {timeout_s:g} s; it goes on")
                await self._ledger.changed(timeout_s=pause_s)
                seen = await self._ledger.job(row.namespace, row.job_id)
                if seen is None:
                    raise _gone(row.job_id)
                row = seen
        result = await self._ledger.result(row.job_id)
        if result is None:
            raise _gone(row.job_id)
        return answer_of(result, self._store)

    async def result(self, job: str) -> Answer:
        """The answer of an ended job, without waiting.

        Raises:
            UnknownJob, WaitTimeout, ResultGone: As `wait`.
        """
        return await self.wait(job, timeout_s=0)

    @contextlib.asynccontextmanager
    async def _tended(self) -> AsyncIterator[None]:
        """While anybody waits here, do what time demands of the ledger and needs no worker."""
        self._waiters += 1
        if self._tender is None:
            self._tender = asyncio.create_task(self._tend(Sweeper(self._ledger, proof_of_death=False)))
        try:
            yield
        finally:
            self._waiters -= 1
            if self._waiters == 0:
                self._tender.cancel()
                self._tender = None

    async def _tend(self, sweeper: Sweeper) -> None:
        while True:
            pause_s = TEND_EVERY_S
            # An error here is none of the waiters': whoever ticks next does the duty.
            with contextlib.suppress(LedgerUnavailable):
                next_ms = await sweeper.tick(self._clock.boot_ms())
                pause_s = min(max(next_ms - self._clock.boot_ms(), 0) / 1000, TEND_EVERY_S)
            await self._clock.sleep(pause_s)

    # --- looking ---

    async def show(self, job: str) -> JobRow:
        """One job as the ledger sees it now.

        Raises:
            UnknownJob: No such job.
        """
        return await self._row(job, None)

    async def list(
        self,
        *,
        namespace: str | None = None,
        kind: str | None = None,
        state: State | str | None = None,
        limit: int = 50,
        before: int | None = None,
    ) -> JobPage:
        """A page of jobs, newest first.

        Args:
            before: The cursor of the page before; None: the newest.

        Raises:
            Invalid: No such state, or a limit below 1.
        """
        if limit < 1:
            raise Invalid(f"limit {limit}: use 1 or more")
        if state is not None and state not in set(State):
            raise Invalid(f"state {state!r}: use one of {', '.join(State)}")
        query = ListQuery(
            namespace=namespace, kind=kind, state=None if state is None else State(state), limit=limit, before=before
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
        if attempt is not None and not 1 <= attempt <= row.attempt:
            raise Invalid(f"{row.job_id} has attempts 1 to {row.attempt}, no attempt {attempt}")
        numbers = range(row.attempt, 0, -1) if attempt is None else [attempt]
        for number in numbers:
            text = await asyncio.to_thread(_read_text, self._place.log_of(row.job_id, number))
            if text:
                return text
        return ""

    async def counts(self, *, namespace: str | None = None) -> dict[str, int]:
        """Jobs per state."""
        return await self._ledger.counts(namespace)

    async def workers(self) -> Sequence[WorkerRow]:
        """The workers that the ledger knows, dead ones included: look at `seen_at_ms`."""
        return await self._ledger.workers()

    async def violations(self) -> Sequence[str]:
        """Broken invariants of the ledger, in words. Empty in a healthy one."""
        return await self._ledger.violations()

    async def _row(self, job: str, namespace: str | None) -> JobRow:
        if not isinstance(job, str):
            raise Invalid(f"pass a job id or request id, not {job!r:.80}")
        row = await self._ledger.job(namespace, job)
        if row is None:
            where = "" if namespace is None else f" in namespace {namespace}"
            raise UnknownJob(f"no job or request {job}{where} in {self._place.ledger}; `planrun list` shows all")
        return row

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


def _read_text(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return ""


def _gone(job_id: str) -> ResultGone:
    return ResultGone(f"{job_id} has ended, but its result is no longer kept; submit it again to have it run again")


def _again(requests: Sequence[SubmitRequest]) -> str:
    others = f" (and {len(requests) - 1} more)" if len(requests) > 1 else ""
    return f"the same request_id may be tried again: {requests[0].request_id}{others}"
