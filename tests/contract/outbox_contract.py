"""The stored answers that are owed, and the files that nobody can ever see (T22, T23)."""

from __future__ import annotations

import asyncio
import json

import msgspec
import pytest

from planrun.core.errors import Invalid
from planrun.core.keeping import Garbage
from planrun.core.life import Outcome
from planrun.core.messages import Result, SubmitReply
from planrun.ledger.contract import Ledger

from .actors import Actors, a_log, an_output
from .ledger_contract import LedgerContract, OpenLedger
from .manual_clock import ManualClock

DAY_S = 86_400


async def settle_the_clocks(ledger: Ledger, clock: ManualClock) -> None:
    """A day passes, after which the wall clock is believed."""
    await ledger.doubt()
    clock.advance(DAY_S)
    assert await ledger.doubt() == 0


class OutboxContract(LedgerContract):
    async def test_every_subscriber_is_owed_the_one_answer(self, they: Actors) -> None:
        """C35: written with the end itself."""
        lease = await they.running(key="k", subscribers=("webhook:https://a.example", "command:b"))
        await they.submit(key="k", subscribers=("webhook:https://c.example",))
        await they.submit(key="k", subscribers=("webhook:https://a.example",))
        await they.succeed(lease, value={"frames": 24})

        bodies = await they.bodies()

        answer = await they.result(lease.job_id)
        assert sorted(bodies) == [
            f"result:{lease.job_id}:{route}"
            for route in ("command:b", "webhook:https://a.example", "webhook:https://c.example")
        ]
        for msg_id, body in bodies.items():
            assert json.loads(body)["msg_id"] == msg_id
            assert msgspec.json.decode(json.dumps(json.loads(body)["result"]), type=Result) == answer

    async def test_a_job_says_how_many_routes_have_not_confirmed_its_answer(self, they: Actors, ledger: Ledger) -> None:
        """C23: an answer that nobody takes is seen at the job, not only in a log."""
        lease = await they.running(subscribers=("webhook:https://a.example", "command:b"))
        await they.succeed(lease)

        assert (await they.row(lease.job_id)).undelivered == 2
        await ledger.confirm(f"result:{lease.job_id}:webhook:https://a.example")
        assert (await they.row(lease.job_id)).undelivered == 1

    async def test_a_waiter_is_not_a_subscriber(self, they: Actors) -> None:
        await they.succeed(await they.running())

        assert await they.bodies() == {}

    async def test_nothing_is_owed_before_the_end(self, they: Actors, ledger: Ledger) -> None:
        lease = await they.running(subscribers=("webhook:https://x.example",))
        await they.fail(lease)

        assert await they.bodies() == {}
        assert not (await ledger.due()).messages

    @pytest.mark.parametrize("is_repeat", [True, False])
    async def test_one_who_asks_after_the_end_is_owed_the_answer_at_once(self, they: Actors, is_repeat: bool) -> None:
        first = {"request_id": "r1", "key": "k"}
        lease = await they.running(**first, subscribers=("webhook:https://early.example",))
        await they.succeed(lease)
        [early] = (await they.bodies()).values()

        await they.submit(**(first if is_repeat else {"key": "k"}), subscribers=("webhook:https://late.example",))

        late = await they.bodies()
        assert list(late) == [f"result:{lease.job_id}:webhook:https://late.example"]
        assert (
            json.loads(late[f"result:{lease.job_id}:webhook:https://late.example"])["result"]
            == json.loads(early)["result"]
        )

    async def test_one_who_repeats_a_request_while_it_runs_is_owed_the_answer_at_the_end(self, they: Actors) -> None:
        lease = await they.running(request_id="r1")
        await they.submit(request_id="r1", subscribers=("webhook:https://x.example",))
        await they.succeed(lease)

        assert list(await they.bodies()) == [f"result:{lease.job_id}:webhook:https://x.example"]

    @pytest.mark.parametrize("end", ["failed", "canceled"])
    async def test_one_who_repeats_a_request_after_any_end_is_owed_that_end(self, they: Actors, end: str) -> None:
        """A key that failed leads to a new job; a request that failed stays answered."""
        lease = await they.running(request_id="r1", key="k")
        await (they.fail(lease, Outcome.PERMANENT) if end == "failed" else they.cancel(lease.job_id))
        for _ in range(2):
            await they.submit(request_id="r1", key="k", subscribers=("webhook:https://late.example",))

        [(msg_id, body)] = (await they.bodies()).items()
        assert msg_id == f"result:{lease.job_id}:webhook:https://late.example"
        assert json.loads(body)["result"]["state"] == end

    async def test_callers_who_come_while_it_ends_are_each_owed_the_one_answer(self, they: Actors) -> None:
        """C59: some join, some are answered; nobody falls between."""
        lease = await they.running(key="k")
        routes = [f"webhook:https://app{n}.example" for n in range(20)]
        calls = [they.submit(key="k", subscribers=(route,)) for route in routes]
        replies = await asyncio.gather(*calls[:10], they.succeed(lease), *calls[10:])

        assert {reply.job_id for reply in replies if isinstance(reply, SubmitReply)} == {lease.job_id}
        assert sorted(await they.bodies()) == sorted(f"result:{lease.job_id}:{route}" for route in routes)

    async def test_an_unconfirmed_message_comes_again_byte_for_byte(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        await they.succeed(
            await they.running(subscribers=("webhook:https://x.example",)), value={"z": 1, "a": [0.1, None, "ü"]}
        )
        tries = []
        for _ in range(4):
            assert (await ledger.due()).messages
            [message] = await ledger.take_messages(limit=10, retry_ms=10_000)
            tries.append(message)
            clock.advance(9.999)
            assert await ledger.take_messages(limit=10, retry_ms=10_000) == []
            clock.advance(3600)

        assert len({(message.msg_id, message.route, message.body) for message in tries}) == 1
        assert [message.tries for message in tries] == sorted({message.tries for message in tries})

    async def test_a_confirmed_message_never_comes_again(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        await they.succeed(await they.running(subscribers=("webhook:https://x.example",)))
        [message] = await ledger.take_messages(limit=10, retry_ms=1_000)
        await ledger.confirm(message.msg_id)
        await ledger.confirm(message.msg_id)
        clock.advance(3600)

        assert await they.bodies() == {}
        assert not (await ledger.due()).messages

    async def test_a_queue_is_no_route_without_a_broker(self, they: Actors) -> None:
        """Refused at the door, with everything that was handed in with it: nobody could ever be told."""
        with pytest.raises(Invalid, match="this planrun has no broker"):
            await they.submit(key="k", subscribers=("webhook:https://a.example", "rabbitmq:answers"))

        assert (await they.submit(key="k")).disposition == "new"

    async def test_a_message_that_nobody_takes_is_parked_once_its_result_was_kept_long_enough(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        lease = await they.running(subscribers=("webhook:https://a.example", "webhook:https://b.example"))
        await they.succeed(lease)
        await they.bodies()
        await settle_the_clocks(ledger, clock)
        msg_id = f"result:{lease.job_id}:webhook:https://a.example"
        clock.advance(13 * DAY_S - 1)
        assert not await ledger.park(msg_id, detail="queue a: there is no such queue")

        clock.advance(1)
        parked = [await ledger.park(msg_id, detail="queue a: there is no such queue") for _ in range(2)]

        assert parked == [True, False]
        assert list(await they.bodies()) == [f"result:{lease.job_id}:webhook:https://b.example"]
        assert (await they.row(lease.job_id)).undelivered == 1
        [event] = [event for event in await ledger.events(lease.job_id) if event.what == "parked"]
        assert event.detail == "queue a: there is no such queue"
        assert await they.result(lease.job_id)

    async def test_a_confirmed_message_is_not_parked(self, they: Actors, ledger: Ledger, clock: ManualClock) -> None:
        lease = await they.running(subscribers=("webhook:https://a.example",))
        await they.succeed(lease)
        await ledger.confirm(f"result:{lease.job_id}:webhook:https://a.example")
        await settle_the_clocks(ledger, clock)
        clock.advance(14 * DAY_S)

        assert not await ledger.park(f"result:{lease.job_id}:webhook:https://a.example", detail="")

    async def test_nothing_is_parked_while_the_wall_clock_is_doubted(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        """Somebody sets it a month ahead by mistake: what is owed stays owed."""
        lease = await they.running(subscribers=("webhook:https://a.example",))
        await they.succeed(lease)
        await settle_the_clocks(ledger, clock)
        clock.jump_wall(30 * DAY_S)

        assert not await ledger.park(f"result:{lease.job_id}:webhook:https://a.example", detail="")
        assert len(await they.bodies()) == 1

    async def test_what_is_sent_in_vain_is_counted_with_the_oldest_from_the_third_try_on(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        jobs = []
        for n in range(2):
            jobs.append((await they.submit(request_id=f"r{n}", subscribers=("webhook:http://127.0.0.1/x",))).job_id)
            await they.cancel(jobs[-1])
            clock.advance(1)
        seen = []
        for _ in range(3):
            seen.append(await ledger.owed())
            clock.advance(600)
            await they.bodies()

        owed = await ledger.owed()
        assert (seen, owed is not None) == ([None] * 3, True)
        assert owed is not None
        assert (owed.answers, owed.job_id, owed.route, owed.tries) == (2, jobs[0], "webhook:http://127.0.0.1/x", 3)
        for msg_id in [f"result:{job}:webhook:http://127.0.0.1/x" for job in jobs]:
            await ledger.confirm(msg_id)
        assert await ledger.owed() is None

    async def test_a_moved_wall_clock_holds_no_message_back(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        await they.succeed(await they.running(subscribers=("webhook:https://x.example",)))
        await ledger.take_messages(limit=10, retry_ms=10_000)
        clock.jump_wall(-24 * 3600)
        clock.advance(3600)

        assert len(await they.bodies()) == 1

    async def test_two_publishers_do_not_take_the_same_message_at_once(
        self, they: Actors, open_ledger: OpenLedger
    ) -> None:
        for _ in range(20):
            await they.succeed(await they.running(subscribers=("webhook:https://x.example",)))
        other = await open_ledger()

        taken = await asyncio.gather(
            *(ledger.take_messages(limit=7, retry_ms=10_000) for ledger in (they.ledger, other) * 3)
        )

        ids = [message.msg_id for batch in taken for message in batch]
        assert len(ids) == len(set(ids)) == 20
        assert max(len(batch) for batch in taken) == 7

    # --- garbage ---

    async def test_a_losers_files_are_garbage_and_the_winners_never(self, they: Actors, ledger: Ledger) -> None:
        loser = await they.running()
        await they.standing(loser, [an_output(loser)])
        await they.expire_all()
        winner = await they.grant(loser.job_id, by="w2")
        await they.standing(winner, [an_output(winner)])
        await they.succeed(winner)

        garbage = {named.lease: named for named in await ledger.garbage(grace_ms=0, limit=10)}

        assert garbage[loser] == Garbage(namespace="default", lease=loser, keep=(), final=False)
        assert winner not in garbage or an_output(winner).key in garbage[winner].keep

    async def test_a_running_attempts_files_are_not_garbage(self, they: Actors, ledger: Ledger) -> None:
        loser = await they.running()
        await they.expire_all()
        await they.grant(loser.job_id, by="w2")

        assert [garbage.lease for garbage in await ledger.garbage(grace_ms=0, limit=10)] == [loser]

    async def test_a_canceled_jobs_files_are_garbage(self, they: Actors, ledger: Ledger) -> None:
        lease = await they.running()
        await they.cancel(lease.job_id)
        await ledger.stopped(lease, "w1")

        assert await ledger.garbage(grace_ms=0, limit=10) == [
            Garbage(namespace="default", lease=lease, keep=(a_log(lease),), final=True)
        ]

    async def test_garbage_waits_for_its_grace_and_is_named_until_it_is_collected(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        lease = await they.running()
        await they.release(lease)
        assert await ledger.garbage(grace_ms=60_000, limit=10) == []
        clock.advance(60)
        for _ in range(2):
            assert [g.lease for g in await ledger.garbage(grace_ms=60_000, limit=10)] == [lease]

        await ledger.collected(lease)

        assert await ledger.garbage(grace_ms=0, limit=10) == []
        assert [attempt.collected for attempt in await ledger.attempts(lease.job_id)] == [True]

    async def test_what_was_visited_is_left_out_until_nothing_is_written_there_any_more(
        self, they: Actors, ledger: Ledger
    ) -> None:
        leases = []
        for n in range(3):
            leases.append(await they.running(request_id=f"r{n}", key=f"k{n}"))
            await they.expire_all()
        tokens = [lease.token for lease in leases]
        assert {found.final for found in await ledger.garbage(grace_ms=0, limit=10)} == {False}
        await ledger.stopped(leases[2], "w1")

        found = await ledger.garbage(grace_ms=0, limit=2, visited=tokens)
        assert [(each.lease, each.final) for each in found] == [(leases[2], True)]
        found = await ledger.garbage(grace_ms=0, limit=2, visited=tokens[:1])
        assert [each.lease for each in found] == leases[1:]

    async def test_a_running_attempt_cannot_be_called_collected(self, they: Actors, ledger: Ledger) -> None:
        lease = await they.running()
        await ledger.collected(lease)

        assert [attempt.collected for attempt in await ledger.attempts(lease.job_id)] == [False]

    async def test_garbage_comes_in_bounded_lots(self, they: Actors, ledger: Ledger) -> None:
        for _ in range(5):
            await they.fail(await they.running(), Outcome.TRANSIENT)

        assert len(await ledger.garbage(grace_ms=0, limit=3)) == 3
