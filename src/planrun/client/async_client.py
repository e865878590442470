"""All verbs of the client, async, over the port of the ledger."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from typing import Unpack

import msgspec

from planrun.client.answer import Answer, answer_of
from planrun.client.content import SECONDS_MAX, Asked, Submit, SubmitOptions, ask, timeout_ms
from planrun.client.handle import AsyncJobHandle
from planrun.client.looking import Looking
from planrun.core.errors import (
    Invalid,
    LedgerBusy,
    LedgerUnavailable,
    ResultGone,
    WaitTimeout,
)
from planrun.core.life import ENDED, State
from planrun.core.messages import (
    CancelReply,
    CancelRequest,
    JobRow,
    SubmitReply,
    SubmitRequest,
)
from planrun.core.names import NAME_RULE, is_name
from planrun.core.pauses import PauseRequest
from planrun.orchestrator.collector import Collector
from planrun.orchestrator.sweeper import Sweeper
from planrun.wiring import scratch_root

SLICE = 100  # jobs per transaction of a bulk submit: renewals get in between
TEND_EVERY_S = 2.0  # at least; at once when a lease or deadline is known to end
LOOK_AT_LEAST_EVERY_S = 5.0  # should a wake-up ever be missed
LOOKS_PER_S_MAX = 1000  # of all who wait here together, however often the ledger changes
SUBMIT_TIMEOUT_S = 30.0
_PAUSES_S = (0.05, 0.1, 0.25, 0.5, 1.0)


class AsyncClient(Looking):
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
        super().__init__(url)
        self._waiters = 0
        self._tender: asyncio.Task[None] | None = None

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

    async def retry(
        self, job: str, *, who: str = "", why: str = "", timeout_s: float = SUBMIT_TIMEOUT_S
    ) -> AsyncJobHandle:
        """Submit a failed or canceled job again: a new job with the same inputs, params, needs and priority.

        The old one stays as it ended. Its key goes along if no other job holds it by now. Deadline, delay and
        subscribers belonged to the old call. Calling it twice makes two jobs.

        Args:
            who, why: For the history of both jobs.
            timeout_s: As in `submit`.

        Raises:
            UnknownJob: No such job.
            Invalid: It is open, or it finished; or an input is gone. Nothing was submitted.
            LedgerUnavailable: Still no answer.
        """
        old = await self.show(job)
        if old.state not in (State.FAILED, State.CANCELED):
            advice = "cancel it first" if old.state not in ENDED else "submit it anew, without its key, to run it again"
            raise Invalid(f"{old.job_id} is {old.state}; only failed or canceled jobs are retried: {advice}")
        submit = Submit(
            old.kind,
            version=old.version,
            inputs=old.inputs,
            params=old.params,
            key=old.key,
            namespace=old.namespace,
            needs=old.needs,
            priority=old.priority,
            max_attempts=old.max_attempts,
            who=who,
        )
        asked = ask(submit, request_id=self._clock.new_id(), wall_ms=self._clock.now().wall_ms)
        request = msgspec.structs.replace(await self._admitted(asked), retry_of=old.job_id, why=why)
        [reply] = await self._submit_slice([request], timeout_s)
        return AsyncJobHandle(self, reply.job_id, reply.disposition)

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
                await self._clock.sleep((self._waiters - 1) / LOOKS_PER_S_MAX)
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

    # --- operating ---

    async def pause(self, *, kind: str = "", namespace: str = "", who: str = "", why: str = "") -> bool:
        """Start no more jobs of a set. What runs goes on, what waits keeps its place.

        Args:
            kind, namespace: Which jobs; empty: any.
            who, why: For the history.

        Returns:
            False if exactly this set was paused before; then that pause stays as it was.

        Raises:
            Invalid: Not a name.
        """
        return await self._ledger.pause(_set_of(kind, namespace, who, why))

    async def resume(self, *, kind: str = "", namespace: str = "", who: str = "", why: str = "") -> bool:
        """Let jobs start again. A pause of a wider or narrower set stays in force.

        Returns:
            False if exactly this set was not paused.

        Raises:
            Invalid: Not a name.
        """
        return await self._ledger.resume(_set_of(kind, namespace, who, why))

    async def backup(self, path: str | Path) -> None:
        """Copy the ledger, consistent, while everything goes on; the copy is looked through before it counts.

        Results are not in it: copy the store afterwards.

        Raises:
            Invalid: There is a file already, or none can be made there.
            LedgerUnavailable: It failed, or the ledger is damaged; nothing was left behind.
        """
        await self._ledger.backup(str(path))

    async def collect(self, *, grace_s: float, scratch: Path | None = None) -> Sequence[str]:
        """Remove what lost attempts left behind, by the ledger's word, as the workers do.

        Args:
            grace_s: Objects of attempts that ended less than so many seconds ago stay.
            scratch: The workers' `--scratch`; None: beside the ledger.

        Returns:
            What has gone: keys of objects and paths of folders.

        Raises:
            Invalid: Not a span of time.
            StorageError: Some of it could not be removed.
        """
        if not 0 <= grace_s < SECONDS_MAX:
            raise Invalid(f"grace {grace_s}: use seconds, 0 or more")
        gone: list[str] = []
        root = scratch_root(self._place, scratch)
        collector = Collector(self._ledger, self._store, scratch=root, gc_grace_s=grace_s, tell=gone.append)
        while await collector.tick(0) == 0:  # a full page of garbage is followed by another one
            pass
        return gone

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


def _set_of(kind: str, namespace: str, who: str, why: str) -> PauseRequest:
    for what, name in (("kind", kind), ("namespace", namespace)):
        if name and not is_name(name):
            raise Invalid(f"{what} {name!r}: use {NAME_RULE}")
    return PauseRequest(kind=kind, namespace=namespace, who=who, why=why)


def _gone(job_id: str) -> ResultGone:
    return ResultGone(f"{job_id} has ended, but its result is no longer kept; submit it again to have it run again")


def _again(requests: Sequence[SubmitRequest]) -> str:
    others = f" (and {len(requests) - 1} more)" if len(requests) > 1 else ""
    return f"the same request_id may be tried again: {requests[0].request_id}{others}"
