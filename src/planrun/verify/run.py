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
from planrun.verify.kinds import KIND, STARTS
from planrun.verify.observer import wrongs_so_far
from planrun.verify.plan import ATTEMPTS_MAX, Ask, Plan, Way
from planrun.verify.story import Story, read_notes

T = TypeVar("T")

WHO = "planrun verify"
OPEN_MAX = 24  # jobs that are under way at once
ENDS_WITHIN_S = 90.0  # a job, once nothing happens any more
AGAIN_S = 0.5
LOOK_EVERY_S = 0.1
TRIES = 20
SAY_EVERY_S = 60.0

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
        notes: Path,
        say: Callable[[str], None],
        subscribers: Sequence[str] = (),
    ) -> None:
        """
        Args:
            clients: At least two.
            name: Of this run alone: keys and request ids begin with it.
            notes: Folder in which the jobs note their starts and ends.
            say: Tells people, now and then, how far it is.
            subscribers: Routes that get each answer.
        """
        self._plan = plan
        self._crew = crew
        self._clients = clients
        self._store = store
        self._clock = clock
        self._name = name
        self._namespace = namespace
        self._notes = notes
        self._say = say
        self._subscribers = subscribers
        self._open = asyncio.Semaphore(OPEN_MAX)
        self._began_ms = 0
        self.stories = [Story(ask, namespace, owes_message=bool(subscribers)) for ask in plan.asks]

    async def carry_out(self) -> None:
        """Until every job has ended, or has had the time to."""
        self._began_ms = self._clock.boot_ms()
        jobs = [asyncio.create_task(self._follow(story)) for story in self.stories]
        saying = asyncio.create_task(self._say_how_far())
        try:
            await self._storm()
            await self._crew.calm()
            await asyncio.gather(*jobs)
        finally:
            for task in (*jobs, saying):
                task.cancel()
            await asyncio.gather(*jobs, saying, return_exceptions=True)

    async def look_back(self) -> None:
        """Once nothing happens any more: what the store holds by now, and what the ledger says of the attempts."""
        for story in self.stories:
            if story.answer is not None:
                await self._read(story, story.answer)
            for job_id in sorted(story.job_ids):
                story.attempts += await self._patiently(partial(self._clients[0].attempts, job_id))
                story.stored |= await self._from_store(partial(_keys, self._store, f"{self._namespace}/jobs/{job_id}/"))

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
            while self._now_s() < self._plan.storm_s and not await self._crew.can_spare(strike):
                await self._clock.sleep(LOOK_EVERY_S)  # what holds the others will pass
            until_s = min(self._now_s() + strike.patience_s, self._plan.storm_s)
            while self._now_s() < until_s and not await self._crew.strike(strike):
                await self._clock.sleep(LOOK_EVERY_S)
        await self._at(self._plan.storm_s)

    async def _say_how_far(self) -> None:
        while True:
            await self._clock.sleep(SAY_EVERY_S)
            wrongs = wrongs_so_far(self.stories, read_notes(self._notes / STARTS))
            handed_in = sum(bool(story.job_ids) for story in self.stories)
            ended = sum(story.is_over for story in self.stories)
            self._say(
                f"{self._now_s() / 60:.0f} min: {handed_in} of {len(self.stories)} jobs handed in, {ended} have ended, "
                f"{sum(self._crew.done.values())} faults, {len(wrongs) or 'nothing'} wrong so far"
            )

    async def _follow(self, story: Story) -> None:
        """One job, from handing it in to its answer, as several clients see it."""
        await self._at(story.ask.at_s)
        async with self._open:
            handles = await asyncio.gather(*self._submits(story))
            story.job_ids |= {handle.id for handle in handles}
            story.submits += len(handles)
            canceling = asyncio.create_task(self._cancel(story.ask, handles[0]))
            story.asked += len(self._clients)
            waiting = [self._wait(client, handles[n % len(handles)].id) for n, client in enumerate(self._clients)]
            for told in asyncio.as_completed(waiting):
                answer = await told
                if answer is not None:
                    await self._heard(story, answer)
            await canceling
            if story.ask.way is Way.KEYED and story.answer is not None and story.answer.ok:
                await self._ask_again(story)
            story.is_over = True

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
                "notes": str(self._notes),
            },
            key=f"{self._name}/{ask.number}" if ask.way is Way.KEYED else None,
            request_id=f"{self._name}-{ask.number}{asker and f'-{asker}'}",
            max_attempts=ATTEMPTS_MAX,
            subscribers=self._subscribers,
            who=WHO,
        )

    async def _ask_again(self, story: Story) -> None:
        """Whoever comes late gets the stored answer."""
        handle = await self._submit(self._clients[-1], story.ask, "late")
        story.job_ids.add(handle.id)
        story.submits += 1
        story.asked += 1
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
            story.saw_bytes(output.key, await self._from_store(partial(self._store.read, output.key)))

    async def _from_store(self, verb: Callable[[], T]) -> T:
        for _ in range(TRIES):
            try:
                return await asyncio.to_thread(verb)
            except StorageError as error:
                said = error
                await self._clock.sleep(AGAIN_S)
        raise said

    async def _cancel(self, ask: Ask, handle: AsyncJobHandle) -> None:
        if ask.cancel_after_s is not None:
            await self._clock.sleep(ask.cancel_after_s)
            await self._patiently(partial(handle.cancel, who=WHO, why="as planned"))

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


def _keys(store: Store, prefix: str) -> set[str]:
    return set(store.keys(prefix))
