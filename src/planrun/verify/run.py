"""One run: jobs are handed in and waited for while things happen to the workers; then all must come to its end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from planrun.client import Answer, AsyncClient, AsyncJobHandle
from planrun.clock import Clock
from planrun.core.errors import LedgerUnavailable, PlanrunError, StorageError, WaitTimeout
from planrun.core.life import State
from planrun.storage.contract import Store
from planrun.verify.crew import Crew
from planrun.verify.kinds import KIND
from planrun.verify.observer import Story
from planrun.verify.plan import Ask, Plan, Way

T = TypeVar("T")

WHO = "planrun verify"
OPEN_MAX = 24  # jobs that are under way at once
ENDS_WITHIN_S = 90.0  # a job, once nothing happens any more
AGAIN_S = 0.5
TRIES = 20

_log = logging.getLogger("planrun.verify")


class Run:
    """Carries a plan out. Everything that it sees goes into `stories`."""

    def __init__(
        self,
        plan: Plan,
        crew: Crew,
        clients: Sequence[AsyncClient],
        store: Store,
        clock: Clock,
        *,
        name: str,
        namespace: str,
        starts: Path,
        subscribers: Sequence[str] = (),
    ) -> None:
        """
        Args:
            clients: At least two.
            name: Of this run alone: keys and request ids begin with it.
            starts: Where the jobs note their starts.
            subscribers: Routes that get each answer.
        """
        self._plan = plan
        self._crew = crew
        self._clients = clients
        self._store = store
        self._clock = clock
        self._name = name
        self._namespace = namespace
        self._starts = starts
        self._subscribers = subscribers
        self._open = asyncio.Semaphore(OPEN_MAX)
        self._began_ms = 0
        self.stories = [Story(ask, owes_message=bool(subscribers)) for ask in plan.asks]

    async def carry_out(self) -> None:
        """Until every job has ended, or has had the time to."""
        self._began_ms = self._clock.boot_ms()
        jobs = [asyncio.create_task(self._follow(story)) for story in self.stories]
        try:
            await self._storm()
            await self._crew.calm()
            await asyncio.gather(*jobs)
        finally:
            for job in jobs:
                job.cancel()
            await asyncio.gather(*jobs, return_exceptions=True)
        for story in self.stories:
            await self._look_back(story)

    async def cancel_open(self) -> None:
        """Leave nothing behind that would still want to run: the namespace is this run's alone."""
        client = self._clients[0]
        with suppress(PlanrunError):
            for state in (State.QUEUED, State.RUNNING):
                while rows := (await client.list(namespace=self._namespace, state=state)).jobs:
                    for row in rows:
                        await client.cancel(row.job_id, who=WHO, why="the run is over")

    async def _storm(self) -> None:
        for strike in self._plan.strikes:
            await self._at(strike.at_s)
            while not await self._crew.strike(strike) and self._now_s() < self._plan.storm_s:
                await self._clock.sleep(AGAIN_S)
        await self._at(self._plan.storm_s)

    async def _follow(self, story: Story) -> None:
        """One job, from handing it in to its answer, as several clients see it."""
        await self._at(story.ask.at_s)
        async with self._open:
            handles = await asyncio.gather(*self._submits(story))
            story.job_ids |= {handle.id for handle in handles}
            story.submits += len(handles)
            canceling = asyncio.create_task(self._cancel(story.ask, handles[0]))
            waiting = [self._wait(client, handles[n % len(handles)].id) for n, client in enumerate(self._clients)]
            for told in asyncio.as_completed(waiting):
                answer = await told
                if answer is not None:
                    await self._heard(story, answer)
            await canceling
            if story.ask.way is Way.KEYED and story.answer is not None and story.answer.ok:
                await self._ask_again(story)

    def _submits(self, story: Story) -> list[Awaitable[AsyncJobHandle]]:
        ask = story.ask
        askers = self._clients[:1] if ask.way is Way.ONCE else self._clients
        return [self._submit(client, ask, str(n) if ask.way is Way.KEYED else "") for n, client in enumerate(askers)]

    def _submit(self, client: AsyncClient, ask: Ask, asker: str) -> Awaitable[AsyncJobHandle]:
        return client.submit(
            KIND,
            namespace=self._namespace,
            params={
                "number": ask.number,
                "seconds": ask.seconds,
                "bytes": ask.bytes,
                "refuses": ask.refuses,
                "starts": str(self._starts),
            },
            key=f"{self._name}/{ask.number}" if ask.way is Way.KEYED else None,
            request_id=f"{self._name}-{ask.number}{asker and f'-{asker}'}",
            max_attempts=20,  # its own process is killed more often here than anywhere else
            subscribers=self._subscribers,
            who=WHO,
        )

    async def _ask_again(self, story: Story) -> None:
        """Whoever comes late gets the stored answer."""
        handle = await self._submit(self._clients[-1], story.ask, "late")
        story.job_ids.add(handle.id)
        story.submits += 1
        answer = await self._wait(self._clients[-1], handle.id)
        if answer is not None:
            story.told.append(answer)

    async def _wait(self, client: AsyncClient, job_id: str) -> Answer | None:
        """None: there is none in time."""
        while True:
            left_s = self._plan.storm_s + ENDS_WITHIN_S - self._now_s()
            try:
                return await client.wait(job_id, timeout_s=max(0.0, left_s))
            except WaitTimeout:
                return None
            except LedgerUnavailable:
                if left_s < 0:
                    return None
                await self._clock.sleep(AGAIN_S)

    async def _heard(self, story: Story, answer: Answer) -> None:
        is_first = not story.told
        story.told.append(answer)
        if is_first:
            await self._read(story, answer)

    async def _read(self, story: Story, answer: Answer) -> None:
        for output in answer.outputs.values():
            story.saw_bytes(output.key, await self._bytes(output.key))

    async def _bytes(self, key: str) -> bytes | None:
        for _ in range(TRIES):
            try:
                return await asyncio.to_thread(self._store.read, key)
            except StorageError as error:
                said = error
                await self._clock.sleep(AGAIN_S)
        raise said

    async def _cancel(self, ask: Ask, handle: AsyncJobHandle) -> None:
        if ask.cancel_after_s is not None:
            await self._clock.sleep(ask.cancel_after_s)
            await self._patiently(partial(handle.cancel, who=WHO, why="as planned"))

    async def _look_back(self, story: Story) -> None:
        """At the end: what the store holds by now, and how the ledger says that the attempts ended."""
        if story.answer is not None:
            await self._read(story, story.answer)
        for job_id in sorted(story.job_ids):
            attempts = await self._patiently(partial(self._clients[0].attempts, job_id))
            story.outcomes += [str(attempt.outcome) for attempt in attempts if attempt.outcome is not None]

    async def _patiently(self, verb: Callable[[], Awaitable[T]]) -> T:
        for _ in range(TRIES):
            try:
                return await verb()
            except LedgerUnavailable as error:
                said = error
                await self._clock.sleep(AGAIN_S)
        raise said

    async def _at(self, at_s: float) -> None:
        await self._clock.sleep(max(0.0, at_s - self._now_s()))

    def _now_s(self) -> float:
        return (self._clock.boot_ms() - self._began_ms) / 1000
