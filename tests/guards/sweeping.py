"""What keeps those who look after the ledger from ending, removing or announcing what they must not."""

from __future__ import annotations

from .fences import SQL, Fence
from .rules import contract


def seen(name: str, file: str, old: str, new: str, test: str, *, by: str = "") -> Fence:
    """Seen by the tests of that duty, or of another."""
    return Fence(name, f"orchestrator/{file}.py", old, new, (f"tests/orchestrator/test_{by or file}.py::{test}",))


CLEAR = "        await asyncio.to_thread(self._clear, holder.incarnation)\n"
BURY = """        ended = await self._ledger.bury(holder.incarnation, who=self._incarnation or "sweeper")\n"""
NO_PROOFS = "        if not self._proof_of_death:\n            return\n        "
PROOFS = "        if False:\n            return\n        "
SENT = """            trip("outbox:sent")
            await self._ledger.confirm(message.msg_id)
            trip("outbox:confirmed")
"""
UNKNOWN = "            return None\n        if isinstance(route, Publish)"
SELF = "test_a_worker_never_buries_itself"
IDLE = "test_a_worker_that_died_while_it_held_nothing_is_buried_too"
SCRATCH = "test_what_is_not_an_attempts_folder_is_never_touched"
RARELY = "test_it_is_visited_more_and_more_rarely_and_at_once_when_nothing_is_written_there_any_more"
HANGS = "test_a_receiver_that_hangs_keeps_no_other_waiting_and_is_tried_with_one_answer_at_a_time"
SICK = "test_a_lane_that_takes_nothing_holds_up_no_other_and_is_left_alone_for_a_minute"
AWAY = "test_a_broker_that_is_away_is_asked_once_for_all_lanes_and_once_it_is_back_each_has_its_offers"
DRY = "test_a_dry_run_tells_and_removes_nothing"

SWEEPING = [
    seen(
        "after a gap of one's own others may renew first",
        "sweeper",
        "if late_ms > GAP_MS:",
        "if False:",
        "test_after_a_gap_of_its_own_the_sweeper_lets_others_renew_first",
    ),
    seen(
        "leases of another boot are judged by no clock of this one",
        "sweeper",
        "if due.foreign_epoch:",
        "if False:",
        "test_a_reboot_is_adopted_instead_of_judged_by_the_old_clock",
    ),
    seen(
        "what nobody can run is not judged before a fleet is up",
        "sweeper",
        "if now_ms >= self._unsupported_at_ms:",
        "if True:",
        "test_unsupported_jobs_end_rarely_and_not_before_the_fleet_had_time_to_come_up",
    ),
    seen(
        "only who is proven dead is buried",
        "sweeper",
        "if not isinstance(prove_dead(holder), ProvenDead):",
        "if False:",
        "test_a_dead_holder_is_buried_and_a_living_one_followed",
    ),
    seen(
        "who broke keeps its leases until they run out",
        "sweeper",
        'if holder.state == "broken" and',
        'if holder.state == "gone" and',
        "test_a_broken_worker_is_buried_once_its_leases_have_run_out",
    ),
    seen(
        "what the dead left is ended before its jobs go on",
        "sweeper",
        f"{CLEAR}{BURY}",
        f"{BURY}{CLEAR}",
        "test_what_the_dead_left_running_is_ended_before_its_jobs_go_on",
    ),
    seen(
        "a proof stays while it is needed",
        "sweeper",
        "        if not await self._ledger.held(holder.incarnation):  #",
        "        if True:  #",
        "test_a_proof_stays_until_nothing_is_left_that_it_has_to_prove",
    ),
    seen(
        "a sweeper buries others",
        "sweeper",
        "for holder in holders if holder.incarnation != self._incarnation]",
        "for holder in holders]",
        SELF,
    ),
    seen(
        "a sweeper that looks for idle dead never buries itself",
        "sweeper",
        "if worker.incarnation != self._incarnation:",
        "if True:",
        IDLE,
    ),
    seen(
        "without proofs only leases count",
        "sweeper",
        f"{NO_PROOFS}others",
        f"{PROOFS}others",
        "test_without_proof_of_death_only_the_lease_counts",
    ),
    seen(
        "without proofs the idle are left alone, too",
        "sweeper",
        f"{NO_PROOFS}for worker",
        f"{PROOFS}for worker",
        "test_without_proof_of_death_only_the_lease_counts",
    ),
    seen(
        "what the ledger names stays",
        "collector",
        "if key not in garbage.keep:",
        "if True:",
        "test_the_objects_of_a_lost_attempt_go_and_those_that_count_stay",
    ),
    seen(
        "who may still write is visited again",
        "collector",
        "if garbage.final and not",
        "if not",
        "test_an_attempt_that_may_still_write_is_visited_again",
    ),
    seen(
        "what cannot be deleted holds nothing up",
        "collector",
        "                failed = error\n                continue\n",
        "                raise\n",
        "test_objects_that_cannot_be_deleted_hold_nothing_else_up",
    ),
    seen(
        "what could not be deleted is not called collected",
        "collector",
        "                failed = error\n                continue\n",
        "                failed = error\n",
        "test_objects_that_cannot_be_deleted_hold_nothing_else_up",
    ),
    seen(
        "who may still write is visited more and more rarely",
        "collector",
        "visited=tuple(visits)",
        "visited=()",
        RARELY,
    ),
    seen(
        "a visit is put off a little more each time",
        "collector",
        "min(2 * last.after_ms, REVISIT_MS_MAX)",
        "COLLECT_EVERY_MS",
        RARELY,
    ),
    seen(
        "a dry run deletes nothing",
        "collector",
        "                if not self._dry_run:\n                    self._store",
        "                if True:\n                    self._store",
        DRY,
    ),
    seen(
        "a dry run calls nothing collected", "collector", "garbage.final and not self._dry_run:", "garbage.final:", DRY
    ),
    seen(
        "a dry run removes no scratch",
        "scratch",
        "            if not self._dry_run:\n",
        "            if True:\n",
        DRY,
        by="collector",
    ),
    seen(
        "scratch of the living stays",
        "scratch",
        "if token not in live:",
        "if True:",
        "test_scratch_of_dead_attempts_goes_and_of_live_ones_stays",
        by="collector",
    ),
    seen(
        "only a token names scratch",
        "scratch",
        "if _TOKEN.fullmatch(path.name) and",
        "if re.fullmatch('[0-9a-f]+', path.name) and",
        SCRATCH,
        by="collector",
    ),
    seen(
        "what the next attempt has taken over is not emptied under it",
        "scratch",
        '                folder = folder.rename(folder.with_suffix(".gone"))\n',
        "",
        "test_a_folder_that_the_next_attempt_takes_over_meanwhile_is_not_emptied_under_it",
        by="collector",
    ),
    seen(
        "a removal that was cut short is gone on with",
        "scratch",
        r"(\.gone)?",
        "",
        "test_a_folder_whose_removal_was_cut_short_goes_next_time",
        by="collector",
    ),
    seen("a link is nobody's scratch", "scratch", " and not path.is_symlink()", "", SCRATCH, by="collector"),
    seen(
        "an answer is confirmed once it was taken",
        "outbox",
        SENT,
        "            pass\n        await self._ledger.confirm(message.msg_id)\n",
        "test_any_other_answer_leaves_the_message_owed",
    ),
    seen(
        "an answer of an unknown route stays owed",
        "outbox",
        f"            self._say(message, str(error))\n{UNKNOWN}",
        f"            await self._ledger.confirm(message.msg_id)\n{UNKNOWN}",
        "test_a_route_that_nobody_understands_stays_owed",
    ),
    seen(
        "nobody there is asked often before an answer is parked",
        "outbox",
        "if message.tries < ALARM_AT_TRIES or not await",
        "if not await",
        "test_where_nobody_is_there_it_is_an_alarm_and_then_parked",
        by="outbox_queue",
    ),
    seen(
        "an answer waits while its result is kept",
        "outbox",
        " or not await self._ledger.park(message.msg_id, detail=str(error)):",
        ":\n                await self._ledger.confirm(message.msg_id)\n            if False:",
        "test_where_nobody_is_there_it_is_an_alarm_and_then_parked",
        by="outbox_queue",
    ),
    seen(
        "a receiver that hangs is not waited for",
        "outbox",
        "await asyncio.wait(begun, timeout=PATIENCE_S)",
        "await asyncio.wait(begun)",
        HANGS,
        by="outbox_hanging",
    ),
    seen(
        "a receiver that hangs is tried with one answer at a time",
        "outbox",
        "if hangs and any(",
        "if False and any(",
        HANGS,
        by="outbox_hanging",
    ),
    seen(
        "a receiver that answers again gets all its answers",
        "outbox",
        "            raise\n        self._hanging.discard(address)\n",
        "            raise\n",
        HANGS,
        by="outbox_hanging",
    ),
    seen(
        "an answer that is under way is not begun again",
        "outbox",
        "if message.msg_id in self._under_way:",
        "if False:",
        "test_what_is_under_way_is_not_begun_again",
        by="outbox_hanging",
    ),
    seen(
        "not more answers are under way than may be",
        "outbox",
        "UNDER_WAY_MAX - len(self._under_way)",
        "AT_ONCE_MAX",
        "test_not_more_is_under_way_than_may_be",
        by="outbox_hanging",
    ),
    seen(
        "what went wrong after a look is said at the next",
        "outbox",
        "            self._failures.append(failure)\n",
        "            pass\n",
        "test_what_went_wrong_behind_the_back_of_a_look_is_said_at_the_next_one",
        by="outbox_hanging",
    ),
    *(
        Fence(
            f"a receiver that hangs holds no connection of others, {where} allowed",
            file,
            old,
            "",
            (
                "tests/orchestrator/test_webhook_targets.py"
                "::test_who_waits_for_a_receiver_that_hangs_holds_no_connection_of_others",
            ),
        )
        for where, file, old in (
            ("what is", "outgoing.py", "            max_connections=LIMITS.max_connections,\n"),
            ("everything", "orchestrator/webhook.py", ", limits=LIMITS"),
        )
    ),
    seen(
        "a webhook has its time",
        "outbox",
        '        except TimeoutError:\n            raise _Undelivered(f"no answer within',
        '        except ZeroDivisionError:\n            raise _Undelivered(f"no answer within',
        "test_a_slow_receiver_delays_nobody_else",
    ),
    seen(
        "a queue has its time",
        "outbox",
        '        except TimeoutError:\n            raise _Undelivered(f"queue',
        '        except ZeroDivisionError:\n            raise _Undelivered(f"queue',
        "test_what_is_not_confirmed_goes_out_again_the_same",
        by="outbox_queue",
    ),
    seen(
        "a command that fails leaves the answer owed",
        "outbox",
        "        except ProgramFailed as error:\n            raise _Undelivered(str(error)) from None\n",
        "        except ProgramFailed:\n            pass\n",
        "test_a_command_that_fails_leaves_the_message_owed_and_says_why",
    ),
    contract(
        "garbage that was visited is left out while something may be written there",
        f"{SQL}/garbage.sql",
        "(a.token NOT IN (SELECT value FROM json_each(:visited)) OR final)",
        "(final OR 1 OR :visited)",
        "TestOutbox::test_what_was_visited_is_left_out_until_nothing_is_written_there_any_more",
    ),
    contract(
        "garbage where nothing is written any more is not left out",
        f"{SQL}/garbage.sql",
        " OR final)",
        ")",
        "TestOutbox::test_what_was_visited_is_left_out_until_nothing_is_written_there_any_more",
    ),
    seen(
        "a lane that takes nothing holds up no other",
        "dispatcher",
        "return sorted(awake, key=lambda lane: self._failed_ms.get(lane.name, 0))",
        "return awake",
        SICK,
        by="sick_lanes",
    ),
    seen(
        "a lane that takes nothing is left alone for a while",
        "dispatcher",
        "(SICK_LANE_RESTS_MS if some_took else 0)",
        "0",
        SICK,
        by="sick_lanes",
    ),
    seen(
        "no lane is left alone because the broker was away",
        "dispatcher",
        "(SICK_LANE_RESTS_MS if some_took else 0)",
        "SICK_LANE_RESTS_MS",
        AWAY,
        by="sick_lanes",
    ),
    seen(
        "a broker that is away is not asked once for each lane",
        "dispatcher",
        "if not some_took:  #",
        "if False:  #",
        AWAY,
        by="sick_lanes",
    ),
]
