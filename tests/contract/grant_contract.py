"""Offers and grants: who may start which attempt, and what everybody else is told (T5 to T7r)."""

from __future__ import annotations

import asyncio

import pytest

from planrun.core.life import Outcome, State
from planrun.core.messages import AttemptRow, Granted, Handler, Refused
from planrun.core.names import token_shown
from planrun.ledger.contract import Ledger

from .actors import HANDLER, KIND, LEASE_MS, Actors
from .ledger_contract import LedgerContract, OpenLedger
from .manual_clock import ManualClock


class GrantContract(LedgerContract):
    async def test_a_grant_gives_the_attempt_with_all_that_it_needs(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        job_id = (await they.submit(inputs={"upload": "/in/42.mov"}, params={"height": 1080})).job_id

        granted = await they.granted(job_id, by="w1")

        assert (granted.lease.job_id, granted.lease.attempt) == (job_id, 1)
        assert (granted.namespace, granted.kind, granted.version) == ("default", KIND, "v1")
        assert (granted.inputs, granted.params) == ({"upload": "/in/42.mov"}, {"height": 1080})
        assert granted.checkpoint is None
        row = await they.row(job_id)
        assert (row.state, row.attempt, row.token, row.incarnation) == (State.RUNNING, 1, granted.lease.token, "w1")
        assert row.worker == "name-of-w1"
        assert row.lease_until_ms == clock.boot_ms_now + LEASE_MS
        assert await ledger.attempts(job_id) == [
            AttemptRow(job_id=job_id, attempt=1, token=granted.lease.token, incarnation="w1", worker="name-of-w1",
                       granted_at_ms=clock.wall_ms)
        ]  # fmt: skip

    async def test_of_two_workers_that_ask_one_gets_it(self, they: Actors, open_ledger: OpenLedger) -> None:
        """Each has its own connection and both ask at once."""
        job_id = (await they.submit()).job_id
        await they.register("w1")
        await they.register("w2")
        other = Actors(await open_ledger(), they.clock, they.ready)

        answers = await asyncio.gather(they.ask(job_id, by="w1"), other.ask(job_id, by="w2"))

        assert sum(isinstance(answer, Granted) for answer in answers) == 1
        assert Refused(why="running") in answers
        assert len(await they.ledger.attempts(job_id)) == 1

    async def test_a_repeated_grant_with_its_nonce_gets_the_same_token(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        """The reply was lost; the worker asks again. Nothing is written, so the lease is not longer either."""
        job_id = (await they.submit(params={"a": 1})).job_id
        first = await they.ask(job_id, nonce="n1")
        before = await they.row(job_id)
        clock.advance(5)

        assert await they.ask(job_id, nonce="n1") == first
        assert isinstance(first, Granted)
        assert await they.row(job_id) == before
        assert len(await ledger.attempts(job_id)) == 1

    async def test_a_duplicate_offer_to_the_same_worker_does_not_start_the_job_twice(self, they: Actors) -> None:
        job_id = (await they.submit()).job_id
        await they.ask(job_id, by="w1", nonce="n1")

        assert await they.ask(job_id, by="w1", nonce="n2") == Refused(why="running")

    @pytest.mark.parametrize("end", [None, Outcome.SUCCESS, Outcome.PERMANENT, Outcome.CANCELED])
    async def test_fifty_duplicates_of_an_offer_change_nothing(
        self, they: Actors, ledger: Ledger, end: Outcome | None
    ) -> None:
        """C38: neither while the job runs nor after it ended, whoever asks."""
        lease = await they.running(subscribers=("webhook:https://x.example",))
        if end is Outcome.SUCCESS:
            await they.succeed(lease)
        elif end is Outcome.CANCELED:
            await they.cancel(lease.job_id)
        elif end is not None:
            await they.fail(lease, end)
        before = (await they.row(lease.job_id), await ledger.attempts(lease.job_id), await ledger.result(lease.job_id))

        answers = [await they.ask(lease.job_id, 1, by=f"w{n % 3}") for n in range(50)]

        assert set(answers) == {Refused(why="running" if end is None else "ended")}
        now = (await they.row(lease.job_id), await ledger.attempts(lease.job_id), await ledger.result(lease.job_id))
        assert now == before

    async def test_a_nonce_is_worth_nothing_to_another_worker(self, they: Actors) -> None:
        job_id = (await they.submit()).job_id
        await they.ask(job_id, by="w1", nonce="n1")

        assert await they.ask(job_id, by="w2", nonce="n1") == Refused(why="running")

    async def test_a_repeated_grant_of_an_attempt_that_ended_is_refused(self, they: Actors) -> None:
        job_id = (await they.submit()).job_id
        first = await they.ask(job_id, nonce="n1")
        assert isinstance(first, Granted)
        await they.release(first.lease)
        second = await they.ask(job_id, 2, nonce="n2")
        assert isinstance(second, Granted)

        assert await they.ask(job_id, 1, nonce="n1") == Refused(why="stale")
        assert await they.ask(job_id, 2, nonce="n1") == Refused(why="running")

    async def test_an_offer_of_an_older_attempt_is_stale(self, they: Actors) -> None:
        lease = await they.running()
        await they.release(lease)

        assert await they.ask(lease.job_id, 1) == Refused(why="stale")
        assert (await they.row(lease.job_id)).state is State.QUEUED

    async def test_an_offer_from_the_future_is_not_granted(self, they: Actors) -> None:
        """It is evidence that the ledger went back in time."""
        job_id = (await they.submit()).job_id

        assert await they.ask(job_id, 2) == Refused(why="ahead")
        assert (await they.row(job_id)).state is State.QUEUED

    async def test_an_unknown_job_is_said_to_be_unknown(self, they: Actors) -> None:
        assert await they.ask("11111111-1111-5111-8111-111111111111") == Refused(why="unknown")

    @pytest.mark.parametrize("end", [Outcome.SUCCESS, Outcome.PERMANENT, None])
    async def test_an_ended_job_is_not_granted(self, they: Actors, end: Outcome | None) -> None:
        lease = await they.running()
        if end is None:
            await they.cancel(lease.job_id)
        elif end is Outcome.SUCCESS:
            await they.succeed(lease)
        else:
            await they.fail(lease, end)
        before = await they.row(lease.job_id)

        assert await they.ask(lease.job_id, 1) == Refused(why="ended")
        assert await they.row(lease.job_id) == before

    async def test_a_job_is_not_granted_before_its_time(self, they: Actors, clock: ManualClock) -> None:
        job_id = (await they.submit(delay_s=30)).job_id
        clock.advance(29.999)
        clock.jump_wall(3600)

        assert await they.ask(job_id) == Refused(why="not-due")
        clock.advance(0.001)
        assert isinstance(await they.ask(job_id), Granted)

    @pytest.mark.parametrize("state", ["draining", "broken", "gone"])
    async def test_a_worker_that_is_not_ready_gets_nothing(self, they: Actors, state: str) -> None:
        job_id = (await they.submit()).job_id
        await they.register("w1", state=state)

        assert await they.ask(job_id, by="w1") == Refused(why="not-ready")
        assert (await they.row(job_id)).state is State.QUEUED

    async def test_tokens_grow_over_jobs_attempts_and_openings_of_the_ledger(
        self, they: Actors, open_ledger: OpenLedger
    ) -> None:
        one = await they.running()
        two = await they.running()
        await they.release(one)
        three = await they.grant(one.job_id)
        later = Actors(await open_ledger(), they.clock, they.ready)
        four = await later.running()

        tokens = [one.token, two.token, three.token, four.token]

        assert tokens == sorted(set(tokens))
        assert [token_shown(token) - token_shown(one.token) for token in tokens] == [0, 1, 2, 3]

    # --- the line ---

    async def test_the_more_urgent_job_is_offered_first_and_equals_by_their_age(
        self, they: Actors, clock: ManualClock
    ) -> None:
        jobs = {}
        for name, priority in [("old", 0), ("urgent", 5), ("new", 0), ("less", -1), ("urgent too", 5)]:
            jobs[name] = (await they.submit(priority=priority)).job_id
            clock.advance(1)

        assert await they.line() == [jobs[name] for name in ("urgent", "urgent too", "old", "new", "less")]
        assert await they.line(limit=2) == [jobs["urgent"], jobs["urgent too"]]

    async def test_the_order_holds_across_kinds(self, they: Actors, clock: ManualClock) -> None:
        handlers = (HANDLER, Handler(kind="poster", version="v3"))
        old = (await they.submit(kind="preview")).job_id
        clock.advance(1)
        urgent = (await they.submit(kind="poster", version="v3", priority=2)).job_id
        new = (await they.submit(kind="poster", version="v3")).job_id

        assert await they.line(handlers=handlers) == [urgent, old, new]
        assert await they.line(handlers=handlers, limit=2) == [urgent, old]

    async def test_the_oldest_job_stands_where_it_was_asked_for_and_once(self, they: Actors) -> None:
        """C71: across kinds, and only what such a worker can run."""
        handlers = (HANDLER, Handler(kind="poster", version="v3"))
        await they.submit(needs=("gpu",))
        oldest = (await they.submit(priority=-5)).job_id
        urgent = [(await they.submit(kind="poster", version="v3", priority=2)).job_id for _ in range(2)]
        younger = (await they.submit(priority=-9)).job_id

        assert await they.line(handlers=handlers) == [*urgent, oldest, younger]
        assert await they.line(handlers=handlers, oldest_at=0) == [oldest, *urgent, younger]
        assert await they.line(handlers=handlers, oldest_at=1, limit=2) == [urgent[0], oldest]
        assert [offer.by_age for offer in await they.offers(handlers=handlers, oldest_at=1)] == [
            False,
            True,
            False,
            False,
        ]
        assert await they.line(handlers=handlers[1:], oldest_at=2) == urgent
        assert await they.line(namespaces=("empty",), oldest_at=0) == []

    @pytest.mark.parametrize("priorities", [(0, 0), (0, 3), (3, 0), (-3, 3)])
    async def test_the_oldest_is_found_whatever_priorities_there_are(
        self, they: Actors, priorities: tuple[int, ...]
    ) -> None:
        jobs = [(await they.submit(priority=priority)).job_id for priority in priorities]

        assert await they.line(oldest_at=0) == jobs

    async def test_c71_a_lost_job_of_low_priority_is_still_the_oldest(self, they: Actors) -> None:
        lease = await they.running(priority=-5)
        await they.submit(priority=9)
        await they.expire_all()

        assert (await they.line(oldest_at=0))[0] == lease.job_id

    @pytest.mark.parametrize("way_back", ["released", "lost", "transient"])
    async def test_a_job_that_comes_back_keeps_its_place(
        self, they: Actors, ledger: Ledger, clock: ManualClock, way_back: str
    ) -> None:
        """A deploy must not send an old job behind everything that was submitted since."""
        lease = await they.running()
        clock.advance(1)
        younger = (await they.submit()).job_id
        if way_back == "released":
            await they.release(lease)
        elif way_back == "lost":
            await they.expire_all()
        else:
            await they.fail(lease)
            clock.advance(2)
            await ledger.promote()

        assert await they.line() == [lease.job_id, younger]

    async def test_a_running_or_ended_job_is_not_offered(self, they: Actors) -> None:
        await they.running()
        await they.succeed(await they.running())
        await they.cancel((await they.submit()).job_id)

        assert await they.line() == []

    async def test_an_offer_names_the_attempt_that_may_be_asked_for(self, they: Actors) -> None:
        lease = await they.running(priority=4)
        await they.release(lease)

        [offer] = await they.offers()

        assert (offer.job_id, offer.attempt, offer.priority) == (lease.job_id, 2, 4)
        assert (offer.namespace, offer.kind, offer.version) == ("default", KIND, "v1")

    async def test_a_worker_is_offered_only_its_namespaces_kinds_and_versions(self, they: Actors) -> None:
        mine = (await they.submit()).job_id
        await they.submit(namespace="ads")
        await they.submit(version="v2")
        await they.submit(kind="poster")

        assert await they.line() == [mine]

    async def test_a_kind_that_this_machine_lacks_something_for_is_not_offered(self, they: Actors) -> None:
        await they.submit()
        handler = Handler(kind=KIND, version="v1", needs=("gpu",), missing=("gpu",))

        assert await they.line(handlers=(handler,)) == []

    async def test_a_flood_that_this_worker_cannot_run_does_not_hide_what_it_can(self, they: Actors) -> None:
        """Filtering after taking the first rows would starve it."""
        for _ in range(300):
            await they.submit(needs=("gpu",), priority=9)
        mine = (await they.submit(needs=("ffmpeg",))).job_id

        assert await they.line(limit=1, capabilities=("ffmpeg", "x264")) == [mine]
        assert len(await they.line(limit=400, capabilities=("gpu",))) == 300

    async def test_all_needs_of_a_job_must_be_met_by_the_one_worker(self, they: Actors) -> None:
        await they.submit(needs=("ffmpeg", "gpu"))

        assert await they.line(capabilities=("ffmpeg",)) == []
        assert len(await they.line(capabilities=("gpu", "ffmpeg", "x264"))) == 1

    async def test_a_capability_whose_name_is_part_of_another_does_not_count(self, they: Actors) -> None:
        await they.submit(needs=("gpu",))

        assert await they.line(capabilities=("gpu-large", "no-gpu")) == []

    async def test_the_first_of_several_that_can_be_had_is_granted(self, they: Actors, ledger: Ledger) -> None:
        """The others were read from the line a moment ago: somebody may have been faster."""
        gone, free, later = [(await they.submit()).job_id for _ in range(3)]
        await they.grant(gone, by="w1")
        await they.register("w2")

        granted = await ledger.grant_first([they.asking(job_id, by="w2") for job_id in (gone, free, later)])

        assert isinstance(granted, Granted)
        assert granted.lease.job_id == free
        assert (await they.row(later)).state is State.QUEUED

    async def test_asked_again_the_same_one_is_granted_though_an_earlier_one_is_free_by_now(
        self, they: Actors, ledger: Ledger
    ) -> None:
        """Its reply was lost. A second grant would be a lease that nobody knows of."""
        gone, free = [(await they.submit()).job_id for _ in range(2)]
        lease = await they.grant(gone, by="w1")
        await they.register("w2")
        asked = [they.asking(gone, attempt=2, by="w2"), they.asking(free, by="w2")]
        first = await ledger.grant_first(asked)
        await they.release(lease)

        assert await ledger.grant_first(asked) == first
        assert (await they.row(gone)).state is State.QUEUED

    async def test_nothing_to_be_had_says_why_for_the_first(self, they: Actors, ledger: Ledger) -> None:
        first, second = await they.running(by="w1"), await they.running(by="w1")
        await they.cancel(second.job_id)
        await they.register("w2")

        answer = await ledger.grant_first([they.asking(lease.job_id, by="w2") for lease in (first, second)])

        assert answer == Refused(why="running")
