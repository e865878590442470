"""Waiting for jobs: one look, one row, and one answer for everyone who asks.

Whoever waits is woken when something happens to its job, and by nothing else. It looks by itself only when time alone
may have changed something: at the job's deadline, and when the lease of its holder should have been renewed. So
a hundred processes that wait cost next to nothing, and a job ends in bounded time although no worker lives.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from planrun.client.answer import Answer, answer_of
from planrun.client.arguments import timeout_ms
from planrun.client.joblog import LogPart, LogTail
from planrun.client.looking import Looking, attempt_of
from planrun.core.errors import LedgerUnavailable, ResultGone, WaitTimeout
from planrun.core.life import ENDED, State
from planrun.core.messages import EventRow, JobRow
from planrun.core.progress import left_ms
from planrun.orchestrator.sweeper import GAP_GRACE_MS, GAP_MS, Sweeper

LOOK_AT_LEAST_EVERY_S = 60.0  # should a wake-up ever be missed, or a worker of an older planrun not send it
PROGRESS_EVERY_S = 1.0  # workers say it no more often
LOG_EVERY_S = 0.25
OVERDUE_EVERY_S = 0.25
LATE_MS = 300  # any living worker ends a lease on time; whoever waits comes after it


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a job is.

    Attributes:
        job: As the ledger saw it: `state`, `attempt`, `worker`, `fraction` and `message` among others.
        left_s: How long it will still take, if that can be said.
        answer: Once it has ended.
    """

    job: JobRow
    left_s: float | None
    answer: Answer | None


class Waiting(Looking):
    """A client that waits. Base of `AsyncClient`."""

    def __init__(self, url: str | None = None) -> None:
        super().__init__(url)
        self._sweeping: asyncio.Task[None] | None = None
        self._hold_until_ms = 0

    async def stream(
        self, job: str, *, timeout_s: float | None = None, every_s: float = PROGRESS_EVERY_S
    ) -> AsyncIterator[Progress]:
        """Follow a job: yields where it is now, then each change, and last its answer.

        Any number of callers may follow one job. Leaving the loop early ends the following, not the job.

        Args:
            timeout_s: Give up after so many seconds; None: never.
            every_s: How often to look at the progress of a job that runs; anything else is seen at once.

        Raises:
            Invalid, UnknownJob, WaitTimeout, ResultGone: As `wait`.
        """
        shown: object = None
        async for row in self._rows(job, timeout_s, every_s=timeout_ms(every_s) / 1000):
            if row.state in ENDED:
                yield Progress(row, None, await self._answer(row.job_id))
                continue
            left = left_ms(row, wall_ms=self._clock.now().wall_ms)
            seen = (row.state, row.attempt, row.worker, row.fraction, row.message, row.not_before_ms)
            if seen != shown:
                shown = seen
                yield Progress(row, None if left is None else left / 1000, None)

    async def wait(self, job: str, *, timeout_s: float | None = None) -> Answer:
        """Wait until a job has ended. The answer is the same for everyone, and never changes.

        Waiting costs nothing, and needs no worker: a job whose deadline passes ends although none lives.

        Args:
            timeout_s: Give up after so many seconds; 0: only look; None: wait for ever.

        Raises:
            Invalid: A timeout that cannot be right.
            UnknownJob: No such job; at once.
            WaitTimeout: It has not ended yet. It goes on.
            ResultGone: It ended, but its result is no longer kept.
        """
        job_id = job
        async for row in self._rows(job, timeout_s):
            job_id = row.job_id
        return await self._answer(job_id)

    async def result(self, job: str) -> Answer:
        """The answer of an ended job, without waiting.

        Raises:
            UnknownJob, WaitTimeout, ResultGone: As `wait`.
        """
        return await self.wait(job, timeout_s=0)

    async def follow_events(self, job: str) -> AsyncIterator[EventRow]:
        """The history of a job, oldest first, and what is added to it until the job has ended."""
        last = -1
        async for row in self._rows(job, None):
            for event in await self._ledger.events(row.job_id):
                if event.id > last:
                    last = event.id
                    yield event

    async def follow_logs(self, job: str, *, attempt: int | None = None) -> AsyncIterator[LogPart]:
        """What a job printed on this box, and what it prints until it has ended, in parts.

        Args:
            attempt: Only of this one; None: of the newest that printed something, and of those that follow.

        Raises:
            UnknownJob: No such job.
            Invalid: It had no such attempt.
        """
        found = await self.show(job)
        number = await self._newest_log(found) if attempt is None else attempt_of(found, attempt)
        tail = LogTail(self._logs, found, number)
        async for row in self._rows(found.job_id, None, every_s=LOG_EVERY_S):
            while True:
                ended = row.state in ENDED or row.attempt > number
                text = await tail.read(last=ended)
                if text:
                    yield LogPart(number, text)
                if attempt is not None and ended:
                    return
                if row.attempt <= number:
                    break
                number += 1
                tail = LogTail(self._logs, row, number)

    async def _rows(self, job: str, timeout_s: float | None, *, every_s: float | None = None) -> AsyncIterator[JobRow]:
        """The job now, and again whenever it may have changed; the last row is an ended one.

        Args:
            every_s: While it runs, look so often, as its progress wakes nobody up.
        """
        until_ms = None if timeout_s is None else self._clock.boot_ms() + timeout_ms(timeout_s)
        row = await self._row(job, None)
        while True:
            yield row
            if row.state in ENDED:
                return
            pause_s = self._pause_s(row)
            if every_s is not None and row.state is State.RUNNING:
                pause_s = min(pause_s, max(every_s, OVERDUE_EVERY_S))
            if until_ms is not None:
                pause_s = min(pause_s, (until_ms - self._clock.boot_ms()) / 1000)
                if pause_s <= 0:
                    raise WaitTimeout(f"{row.job_id} is still {row.state} after {timeout_s:g} s; it goes on")
            due_ms = self._clock.boot_ms() + pause_s * 1000
            await self._ledger.changed(timeout_s=pause_s, about=row.job_id)
            if self._clock.boot_ms() > due_ms + GAP_MS:  # we stood still, and so did others, maybe: let them renew
                self._hold_until_ms = self._clock.boot_ms() + GAP_GRACE_MS
            try:
                seen = await self._ledger.job(row.namespace, row.job_id)
            except LedgerUnavailable:
                if not self._place.is_remote:
                    raise
                continue  # the orchestrator is away, and jobs go on meanwhile: whoever waits does, too
            if seen is None:
                raise _gone(row.job_id)
            row = seen

    def _pause_s(self, row: JobRow) -> float:
        """How long nothing can happen to a job of which nobody tells. What time demands is done in passing."""
        now = self._clock.now()
        if self._place.is_remote:  # there is somebody who looks after it
            return LOOK_AT_LEAST_EVERY_S
        if self._sweeping is None:  # the machine may have been rebooted since anybody looked
            self._sweeping = asyncio.create_task(self._sweep())
        waits_ms = [LOOK_AT_LEAST_EVERY_S * 1000]
        if row.lease_until_ms is not None:
            waits_ms.append(row.lease_until_ms + LATE_MS - now.boot_ms)
        if row.deadline_at_ms is not None:
            waits_ms.append(row.deadline_at_ms - now.wall_ms)
        if min(waits_ms) > 0:
            return min(waits_ms) / 1000 + 0.001
        if self._sweeping.done() and now.boot_ms >= self._hold_until_ms:
            self._sweeping = asyncio.create_task(self._sweep())
        return OVERDUE_EVERY_S

    async def _sweep(self) -> None:
        # An error here is none of the waiters': whoever looks next does it again.
        with contextlib.suppress(LedgerUnavailable):
            await Sweeper(self._ledger, proof_of_death=False).tick(self._clock.boot_ms())

    async def _answer(self, job_id: str) -> Answer:
        result = await self._ledger.result(job_id)
        if result is None:
            raise _gone(job_id)
        return answer_of(result, self._store)

    async def close(self) -> None:
        """Close the ledger. A second call does nothing."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)
        await super().close()


def _gone(job_id: str) -> ResultGone:
    return ResultGone(f"{job_id} has ended, but its result is no longer kept; submit it again to have it run again")
