"""What a worker does with what a transport hands it."""

from __future__ import annotations

from .fences import Fence
from .rules import contract

KEEPER = "worker/keeper.py"
TAKING = "worker/taking.py"
FOLLOWING = "tests/transport/test_following.py"
LOST_REPLY = (
    "tests/worker/test_taking.py"
    "::test_a_grant_whose_reply_got_lost_is_asked_for_by_the_same_name_while_its_lease_may_run"
)


def keeper(name: str, old: str, new: str, test: str) -> Fence:
    return Fence(name, KEEPER, old, new, (f"tests/worker/test_keeper.py::{test}",))


def order(name: str, file: str, old: str, new: str, test: str) -> Fence:
    """In which order a broker is told things."""
    return Fence(name, f"transport/{file}.py", old, new, (f"tests/transport/test_order.py::{test}",))


def fault(name: str, file: str, old: str, new: str, test: str) -> Fence:
    """What holds while the broker breaks."""
    return Fence(name, f"transport/rabbitmq/{file}.py", old, new, (f"tests/transport/test_faults.py::{test}",))


TRANSPORT = [
    fault(
        "one orchestrator alone takes the heartbeats of a prefix",
        "fleet",
        "        await self._hold_the_prefix()\n",
        "",
        "test_a_second_orchestrator_with_the_same_prefix_takes_no_heartbeats",
    ),
    Fence(
        "a worker looks where its fleet is when its broker is lost",
        "transport/following.py",
        "self._end = opening(at, self._lost.set)",
        "self._end = opening(at, lambda: None)",
        (f"{FOLLOWING}::test_a_worker_whose_broker_is_lost_looks_at_once_where_its_fleet_is",),
    ),
    Fence(
        "a worker leaves a broker that its fleet has left",
        "transport/following.py",
        "async with asyncio.timeout(self._every_s):",
        "async with asyncio.timeout(None):",
        (f"{FOLLOWING}::test_a_broker_that_still_answers_keeps_no_worker_whose_fleet_has_left_it",),
    ),
    Fence(
        "what repeats is not logged each time",
        "complaints.py",
        "            self._unsaid[about] = self._unsaid.get(about, 0) + 1\n            return\n",
        "            self._unsaid[about] = self._unsaid.get(about, 0) + 1\n",
        ("tests/worker/test_complaints.py::test_what_repeats_is_said_once_a_minute_and_then_counted",),
    ),
    contract(
        "who is proven dead is lost at once",
        "ledger/verbs/duties.py",
        '    tx.rows("unsee_worker", incarnation=incarnation, before_ms=tx.now.wall_ms - LOST_AFTER_MS)\n',
        "",
        "TestLease::test_a_proof_from_another_machine_needs_the_secret_of_the_dead_and_no_other_will_do",
    ),
    contract(
        "a fence check that is answered held keeps the lease",
        "ledger/verbs/holding.py",
        '    tx.rows("extend", **_fence(lease), now_ms=tx.now.boot_ms)\n',
        "",
        "TestLease::test_whoever_hears_at_the_fence_that_it_holds_does_so_for_a_whole_lease",
    ),
    contract(
        "what a fence check keeps is a whole lease",
        "ledger/sql/sqlite/extend.sql",
        ":now_ms + lease_ms",
        ":now_ms",
        "TestLease::test_whoever_hears_at_the_fence_that_it_holds_does_so_for_a_whole_lease",
    ),
    Fence(
        "a silent broker leaves a heartbeat time to ask the ledger",
        "transport/beating.py",
        "silent_s = heartbeat_ms(request.lease_ms) / 2000",
        "silent_s = 60",
        (
            "tests/transport/test_faults.py"
            "::test_a_frozen_broker_is_given_up_and_leaves_a_heartbeat_time_to_ask_the_ledger",
        ),
    ),
    order(
        "a busy worker's consumer is gone before its last acknowledgement",
        "intake",
        "            if lease is not None:\n                await self._intake.started()\n",
        "",
        "test_the_consumer_is_gone_before_the_offer_that_fills_the_last_place_is_acknowledged",
    ),
    order(
        "what is given back does not come straight back",
        "intake",
        "            await self._intake.rest()\n            await self._held.give_back()\n\n",
        "            await self._held.give_back()\n\n",
        "test_before_an_offer_goes_back_nothing_is_consumed_any_more",
    ),
    order(
        "an offer that comes too late is not held",
        "intake",
        "        if self._free <= 0:\n            offer_back",
        "        if False:\n            offer_back",
        "test_an_offer_that_comes_when_the_room_has_gone_is_not_held",
    ),
    order(
        "evidence that could not be kept is not destroyed",
        "intake",
        "            if await self._held.put_aside(why):\n",
        "            if await self._held.put_aside(why) or True:\n",
        "test_a_strange_offer_that_cannot_be_kept_goes_back",
    ),
    order(
        "heartbeats are acknowledged once they are in the ledger",
        "rabbitmq/fleet",
        "            self._taken = batch[-1][0]\n",
        "            await self._channel.basic_ack(batch[-1][0], multiple=True)\n",
        "test_heartbeats_are_acknowledged_once_more_are_asked_for",
    ),
    order(
        "a canceled consumer of heartbeats is a break",
        "rabbitmq/fleet",
        "        channel.on_consumer_cancel_callbacks.add(lambda _: self._break())\n",
        "",
        "test_whatever_interrupts_heartbeats_is_one_break_and_what_came_before_is_void",
    ),
    order(
        "a closed channel of heartbeats is a break",
        "rabbitmq/fleet",
        "        channel.closing.add_done_callback(lambda _: self._break())\n",
        "",
        "test_whatever_interrupts_heartbeats_is_one_break_and_what_came_before_is_void",
    ),
    order(
        "heartbeats before a break are void",
        "rabbitmq/fleet",
        "        if self.is_over:  # broken meanwhile\n            return ()\n",
        "",
        "test_whatever_interrupts_heartbeats_is_one_break_and_what_came_before_is_void",
    ),
    order(
        "what was returned has not arrived",
        "rabbitmq/sender",
        "                except PublishError:  # returned\n                    return False\n",
        "                except PublishError:  # returned\n                    return True\n",
        "test_what_was_returned_has_not_arrived",
    ),
    order(
        "what is sent must be routed",
        "rabbitmq/sender",
        "mandatory=True",
        "mandatory=False",
        "test_what_is_confirmed_has_arrived",
    ),
    keeper(
        "a heartbeat that has only arrived revives nothing",
        "holding.belief.confirmed(sent_ms=sent_ms, now_ms=now_ms)",
        "holding.belief.answered(sent_ms=sent_ms)",
        "test_only_an_answer_revives_a_lease_past_its_deadline",
    ),
    keeper(
        "a word about another lease ends nothing",
        " or holding.lease != notice.lease:",
        ":",
        "test_a_word_about_something_else_ends_nothing",
    ),
    Fence(
        "an offer that the ledger does not know is kept",
        TAKING,
        "    if why in STRANGE:\n",
        "    if False:\n",
        ("tests/worker/test_taking.py::test_what_becomes_of_an_offer_that_is_refused",),
    ),
    Fence(
        "an offer whose grant was not answered goes back",
        TAKING,
        "            await give_back(asking.deliveries)\n            raise\n",
        "            raise\n",
        ("tests/worker/test_taking.py::test_an_unanswered_grant_is_asked_for_again_and_then_the_offer_goes_back",),
    ),
    Fence(
        "a grant whose reply got lost is asked for by the same name",
        TAKING,
        "                return each._replace(offer=offer)\n",
        "                break\n",
        (LOST_REPLY,),
    ),
    Fence(
        "a grant whose reply got lost is asked for by one slot at a time",
        TAKING,
        "                self._undecided.remove(each)\n",
        "",
        ("tests/worker/test_taking.py::test_an_unanswered_grant_is_asked_for_again_by_one_slot_at_a_time",),
    ),
    keeper(
        "a lease that was granted late is renewed at once",
        "            self._sent_ms = min(self._sent_ms, asked_ms)\n",
        "",
        "test_a_lease_that_was_granted_late_is_renewed_at_once",
    ),
    Fence(
        "trust in a lease counts from the first question",
        TAKING,
        "min(each.asked_ms for each in named)",
        "self._clock.boot_ms()",
        (LOST_REPLY,),
    ),
    Fence(
        "a lease that has run out is not asked for again",
        TAKING,
        " if each.asked_ms > oldest_ms]",
        "]",
        ("tests/worker/test_taking.py::test_a_lease_that_nobody_can_have_any_more_is_not_asked_for_again",),
    ),
    Fence(
        "what has ended here is remembered for a while only",
        TAKING,
        "self._ended.get(_key(delivery), -ENDED_MS) + ENDED_MS",
        "self._ended.get(_key(delivery), -ENDED_MS) + 1000 * ENDED_MS",
        (
            "tests/worker/test_taking.py"
            "::test_an_offer_of_what_has_just_ended_here_is_dropped_without_a_question_and_later_is_not",
        ),
    ),
]
