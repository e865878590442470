"""What keeps an attempt from going on, or from saying what is not so, once its lease or its word is worth nothing."""

from __future__ import annotations

from .fences import Fence
from .worker import seen


def carried(name: str, old: str, new: str, test: str) -> Fence:
    """A rule of the whole worker, seen by a story of the simulator or on real processes."""
    return Fence(name, "worker/supervisor.py", old, new, (test,))


LOST = "test_who_has_lost_its_job_uploads_and_settles_nothing_and_says_that_it_has_stopped"
FETCHED = "test_while_a_checkpoint_is_fetched_lease_and_orders_are_heard_and_nobody_waits_for_the_store"
OWN_LAYOUT = "test_only_a_checkpoint_of_the_own_layout_is_looked_for_and_one_that_is_gone_costs_a_new_beginning"

KEEPER = [
    seen(
        "a heartbeat tells that a lease is over",
        "keeper",
        "            else:\n                holding.end(standing)\n",
        "            else:\n                pass\n",
        "test_where_nobody_says_how_a_lease_ended_a_heartbeat_asks",
    ),
    seen(
        "who was told that it is over does not act",
        "keeper",
        "not self.is_over and self.belief",
        "self.belief",
        "test_whoever_was_told_that_it_is_over_does_not_act_however_long_it_might_trust_itself",
    ),
    seen(
        "past the own deadline nobody acts unasked",
        "keeper",
        " and self.belief.is_trusted(now_ms=now_ms)\n",
        "\n",
        "test_only_an_answer_revives_a_lease_past_its_deadline",
    ),
    seen(
        "the first verdict stands",
        "keeper",
        "        if self.verdict is None:\n",
        "        if True:\n",
        "test_the_first_word_that_ends_a_lease_stands",
    ),
    seen(
        "trust in a fresh lease counts from the question",
        "keeper",
        "trusted_until_ms=asked_ms + self._lease_ms",
        "trusted_until_ms=self._clock.boot_ms() + self._lease_ms",
        "test_trust_in_a_fresh_lease_counts_from_when_it_was_asked_for",
    ),
    seen(
        "a fault of one heartbeat is not the last",
        "keeper",
        "        except Exception:  # a fault",
        "        except ZeroDivisionError:  # a fault",
        "test_a_heartbeat_that_a_fault_swallows_is_followed_by_one_without_the_news",
    ),
    Fence(
        "heartbeats go on soon after a machine has slept",
        "worker/keeper.py",
        "min(WAIT_S_MAX, max(0.005, (period_ms - passed_ms) / 1000))",
        "max(0.005, (period_ms - passed_ms) / 1000)",
        ("tests/sim/test_scenarios_clocks.py::test_c20_a_box_that_slept_past_the_lease_keeps_its_silent_job",),
    ),
    seen(
        "a lease that seems over is asked about",
        "keeper",
        "            await self.tick()\n\n    def _wait_s",
        "            pass\n\n    def _wait_s",
        "test_where_nobody_says_how_a_lease_ended_a_heartbeat_asks",
    ),
]

ATTEMPT = [
    seen(
        "before an upload the ledger is asked",
        "attempt",
        "            await self._fence(paths)\n",
        "",
        "test_what_is_stored_was_asked_for_first_and_is_settled_then",
    ),
    seen(
        "who has lost its job uploads nothing",
        "attempt",
        '        if standing.status != "held":\n',
        "        if False:\n",
        LOST,
    ),
    seen(
        "without an answer the own deadline counts",
        "attempt",
        "if self.holding.may_act(self.tools.clock.boot_ms()):",
        "if True:",
        "test_past_the_own_deadline_an_answer_is_waited_for",
    ),
    seen(
        "a worker that ends waits for no fence check",
        "attempt",
        'await self._until_answered("fence check", ask)',
        'await self._keep_asking("fence check", ask)',
        "test_a_worker_that_ends_waits_for_no_fence_check",
    ),
    seen(
        "who hears that it is over waits for no fence check",
        "attempt",
        'if self.holding.is_over:\n                    raise LostLease("the lease ended while nobody',
        'if False:\n                    raise LostLease("the lease ended while nobody',
        "test_who_hears_that_it_is_over_waits_for_no_fence_check",
    ),
    seen(
        "an upload ends with the own deadline",
        "attempt",
        "may_go_on=lambda: self.holding.may_act(clock.boot_ms()),",
        "may_go_on=lambda: True,",
        "test_an_upload_that_outlasts_the_own_deadline_is_asked_for_anew",
    ),
    seen(
        "what is named is what was written",
        "attempt",
        "if store.head(stored.key) != stored.bytes:",
        "if False:",
        "test_an_object_that_is_not_what_was_written_is_not_named",
    ),
    seen(
        "a settle is asked for until it is answered",
        "attempt",
        "        for tries in itertools.count():\n",
        "        for tries in range(1):\n",
        "test_a_settle_that_nobody_answers_is_made_again",
    ),
    seen(
        "only an accepted fatal error ends the worker",
        "attempt",
        '        trip("settle:answered")\n',
        '        trip("settle:answered")\n        self.failed_fatally = ran.outcome is Outcome.FATAL\n',
        "test_only_a_fatal_error_that_was_accepted_ends_the_worker",
    ),
    seen(
        "nothing follows a fatal error",
        "attempt",
        "if ran.outcome is not Outcome.FATAL and",
        "if",
        "test_nothing_follows_a_fatal_error",
    ),
    seen(
        "a broken worker says nothing of its jobs",
        "attempt",
        "            if ran is not None:  #",
        "            if True:  #",
        "test_a_broken_worker_says_nothing_of_its_jobs",
    ),
    seen(
        "what never began waits before it is tried again",
        "attempt",
        "why=why, started=started,",
        "why=why,",
        "test_a_hand_back_says_whether_the_job_had_begun",
    ),
    seen(
        "what is over is not settled",
        "attempt",
        "        if ran.over:\n",
        "        if False:\n",
        "test_what_is_over_or_handed_back_is_not_settled",
    ),
    seen(
        "what is handed back is not settled",
        "attempt",
        "        if ran.released is not None:\n",
        "        if False:\n",
        "test_what_is_over_or_handed_back_is_not_settled",
    ),
    seen(
        "who was refused says that it has stopped",
        "attempt",
        "self.name, answer.status, answer.why)\n        await self._report_stopped()\n",
        "self.name, answer.status, answer.why)\n",
        "test_only_a_fatal_error_that_was_accepted_ends_the_worker",
    ),
    seen(
        "only the own layout of a checkpoint is resumed from",
        "attempt",
        " or checkpoint.format != self.kind.resumable",
        "",
        OWN_LAYOUT,
    ),
    seen(
        "a checkpoint that is gone costs a new beginning",
        "attempt",
        "            if error.is_away:\n                raise\n            log.warning",
        "            raise\n            log.warning",
        OWN_LAYOUT,
    ),
    seen(
        "what was fetched of a checkpoint that is gone is removed",
        "attempt",
        "            remove_folder(self.folder.resume)  #",
        "            pass  #",
        OWN_LAYOUT,
    ),
    seen(
        "nobody waits for what a job needs once it is not to start",
        "attempt",
        "                task.cancel()\n\n",
        "                pass\n\n",
        FETCHED,
    ),
    seen(
        "a fetch for which nobody waits ends",
        "attempt",
        "before_chunk=self._stop_unwanted)",
        "before_chunk=lambda: None)",
        FETCHED,
    ),
    seen(
        "a broken worker says nothing of a job that has not started",
        "attempt",
        "return None if self.run.orders.abandon else Ran(",
        "return Ran(",
        FETCHED,
    ),
    seen(
        "a lease that is over is not renewed",
        "attempt",
        "            self.tools.keeper.drop(lease)\n",
        "            pass\n",
        "test_what_is_stored_was_asked_for_first_and_is_settled_then",
    ),
]

SIM = "tests/sim/test_scenarios"
SUPERVISOR = [
    carried(
        "a fatal error ends its worker",
        "            if attempt.failed_fatally:\n",
        "            if False:\n",
        f"{SIM}_failures.py::test_d21_a_fatal_error_ends_its_worker_and_each_of_its_jobs_returns_when_its_lease_runs_out[1]",
    ),
    carried(
        "what a fault of the worker has ended goes on, and says why",
        "            await self._own_up(lease, fault)\n",
        "",
        f"{SIM}_failures.py"
        "::test_what_a_fault_of_the_worker_ended_is_tried_again_before_its_lease_is_over_and_says_why[1]",
    ),
    Fence(
        "who never became a worker leaves no lock file",
        "wiring/worker.py",
        "            undo.callback(lock.remove)\n",
        "",
        ("tests/worker/test_embed.py::test_who_never_became_a_worker_leaves_no_lock_file",),
    ),
    carried(
        "a machine without room takes no job",
        "        if isinstance(room, NoRoom):\n",
        "        if False:\n",
        f"{SIM}_failures.py::test_d17_on_a_full_scratch_disk_attempts_fail_and_no_more_jobs_are_taken[1]",
    ),
    carried(
        "a worker outlives what it runs",
        "        while self._running:\n",
        "        while False:\n",
        f"{SIM}_deploys.py::test_f1_a_job_that_is_near_its_end_when_its_worker_is_told_to_end_finishes_under_heartbeats[1]",
    ),
    carried(
        "a second order to end is in a hurry",
        "hurry=self._draining)",
        "hurry=False)",
        "tests/integration/test_deploys.py::test_c48_a_second_sigterm_hands_back_at_once",
    ),
]
