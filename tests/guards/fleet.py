"""Rules of a fleet: its leases, its heartbeats, its offers."""

from __future__ import annotations

from .fences import SQL, Fence
from .rules import contract

BEATS = "tests/orchestrator/test_beats.py"


def beats(name: str, old: str, new: str, test: str) -> Fence:
    """A rule about heartbeats."""
    return Fence(name, "orchestrator/beats.py", old, new, (f"{BEATS}::{test}",))


LEFTOVERS = "tests/worker/test_leftovers.py"
DISPATCHER = "tests/orchestrator/test_dispatcher.py"


def offers(name: str, file: str, old: str, new: str, test: str) -> Fence:
    """A rule about offers."""
    return Fence(name, file, old, new, (f"{DISPATCHER}::{test}",))


KEPT_LOG = "tests/worker/test_kept_log.py"
WAITS = "TestFleet::test_a_rate_and_a_broker_that_takes_no_offers_are_reasons_to_wait"

FLEET = [
    Fence(
        "a drain waits for no orchestrator that is away",
        "worker/last_words.py",
        "while not orders.is_over(clock.boot_ms(), grace_s):",
        "while not orders.hurry:",
        ("tests/worker/test_last_words.py::test_once_told_to_end_a_moment_is_left",),
    ),
    Fence(
        "the grace of a drain counts for what is still to be said",
        "worker/orders.py",
        "now_ms >= self.hand_back_ms + grace_s * 1000",
        "now_ms >= self.hand_back_ms",
        (
            "tests/worker/test_last_words.py::test_the_grace_of_a_drain_counts_from_its_order_and_a_second_order_ends_it",
        ),
    ),
    Fence(
        "what is shown of a log has no gap",
        "worker/kept_log.py",
        "self._read += len(there)",
        "self._read += len(data)",
        (f"{KEPT_LOG}::test_a_piece_whose_answer_got_lost_is_neither_repeated_nor_left_out",),
    ),
    Fence(
        "no more is shown of a log than is kept",
        "worker/kept_log.py",
        "file.read(KEPT_BYTES_MAX - self._shown)",
        "file.read()",
        (f"{KEPT_LOG}::test_while_a_job_runs_its_log_is_shown_piece_by_piece_up_to_what_is_kept_of_a_log",),
    ),
    Fence(
        "a log without its end is read in pieces",
        "client/joblog.py",
        "if not pieces:",
        "if True:",
        ("tests/client/test_live_logs.py::test_of_a_worker_that_was_lost_with_its_log_the_pieces_are_left",),
    ),
    contract(
        "who asks why hears of a rate", "core/why.py", "if offering.per_s is not None and (", "if False and (", WAITS
    ),
    contract(
        "who asks why hears of a broker that is away",
        "core/why.py",
        "if offering.stopped_at_ms is not None:",
        "if False:",
        WAITS,
    ),
    offers(
        "a broker that is away is said",
        "orchestrator/dispatcher.py",
        "await self._say(goes_on=some_took or not failures)",
        "await self._say(goes_on=True)",
        "test_a_broker_that_takes_no_offers_is_told_to_whoever_asks_why",
    ),
    *(
        Fence(name, "orchestrator/roster.py", old, new, (f"tests/orchestrator/test_roster.py::{test}",))
        for test, sets in (
            (
                "test_free_slots_are_added_up_anew_when_something_that_counts_has_changed",
                (
                    ("whoever takes a slot is counted", " or taken is not self._taken:", ":"),
                    ("whoever leaves is counted no more", "self._rows, self._lanes = {}, None", "self._rows = {}"),
                    (
                        "whoever drains has no free slots",
                        " or (known[0].state, known[0].slots) != (row.state, row.slots)",
                        "",
                    ),
                ),
            ),
        )
        for name, old, new in sets
    ),
    Fence(
        "an offer is not held back until a burst is over",
        "orchestrator/duties.py",
        "if loop.at_once:",
        "if False:",
        ("tests/orchestrator/test_duties.py::test_what_a_worker_waits_for_comes_before_the_rest_that_a_burst_gets",),
    ),
    contract(
        "a heartbeat counts from the moment in which it is processed",
        "ledger/verbs/holding.py",
        "beats=dump(beats), now_ms=tx.now.boot_ms",
        "beats=dump(beats), now_ms=0",
        "TestFleet::test_a_batch_of_heartbeats_counts_from_its_own_transaction_and_answers_in_order",
    ),
    contract(
        "in a fleet the ledger waits longer than the holder",
        "core/lease.py",
        "return lease_ms + lease_ms * 2 // 1000 + 2_000",
        "return lease_ms",
        "TestFleet::test_the_ledger_waits_longer_than_a_holder_trusts_itself",
    ),
    contract(
        "who had an older epoch of the heartbeats re-arms nothing",
        f"{SQL}/rearm.sql",
        " AND (SELECT v FROM meta WHERE k = 'beat_epoch') = :beat_epoch",
        " AND :beat_epoch",
        "TestFleet::test_epochs_only_grow_and_an_older_one_re_arms_nothing",
    ),
    contract(
        "a reboot of the ledger's machine takes no lease of a fleet",
        "ledger/verbs/duties.py",
        "    if beat_epoch is not None:  # a fleet's",
        "    if False:  # a fleet's",
        "TestFleet::test_a_reboot_of_the_ledgers_machine_takes_no_lease_of_a_fleet",
    ),
    contract(
        "one worker's leases are ended alone",
        f"{SQL}/expired.sql",
        " AND incarnation = coalesce(:incarnation, incarnation)",
        " AND coalesce(:incarnation, '') IS NOT NULL",
        "TestFleet::test_who_is_silent_is_known_before_anything_ends_and_one_worker_can_be_ended_alone",
    ),
    contract(
        "a heartbeat of another attempt is not held by its twin's",
        "ledger/verbs/holding.py",
        "is_held=_identity(beat.lease) in held",
        "is_held=beat.lease.token in {token for _, _, token in held}",
        "TestFleet::test_the_stale_twin_of_a_lease_in_the_same_batch_is_lost",
    ),
    contract(
        "a proof of death from another machine needs the secret",
        "ledger/verbs/duties.py",
        'not hmac.compare_digest(kept["digest"], digest_of(secret))',
        "not secret",
        "TestLease::test_a_proof_from_another_machine_needs_the_secret_of_the_dead_and_no_other_will_do",
    ),
    contract(
        "who is known already registers no other secret",
        f"{SQL}/put_proof.sql",
        "WHERE NOT EXISTS (SELECT 1 FROM worker WHERE incarnation = :incarnation)\n"
        "    ON CONFLICT(incarnation) DO NOTHING",
        "WHERE true ON CONFLICT(incarnation) DO UPDATE SET digest = excluded.digest",
        "TestLease::test_nobody_puts_a_secret_of_his_own_in_the_place_of_another_workers",
    ),
    Fence(
        "a machine in trouble does not get its jobs back at once",
        "worker/leftovers.py",
        'if dead.state == "broken" and',
        'if dead.state == "gone" and',
        (
            f"{LEFTOVERS}::test_a_worker_that_broke_gives_its_leases_up_early_on_a_machine_that_is_found_well_and_on_no_other",
        ),
    ),
    beats(
        "a marker comes before any lease ends",
        "        await self._transport.mark(marker)\n",
        "        await self._expiry.end(stamp_ms=now_ms, now_ms=now_ms)\n",
        "test_heartbeats_that_wait_unread_count_before_anything_ends",
    ),
    beats(
        "heartbeats before a marker are in the ledger when it is met",
        "            await self._process_first()\n",
        "            self._taken.sort(key=lambda each: isinstance(each, RenewRequest))\n"
        "            await self._process_first()\n",
        "test_heartbeats_that_wait_unread_count_before_anything_ends",
    ),
    beats(
        "markers of an older epoch are forgotten",
        "        self._marked.clear()\n",
        "",
        "test_a_marker_that_was_away_for_too_long_says_nothing_and_heartbeats_begin_anew",
    ),
    beats(
        "a marker is void once its way was broken",
        "made_ms is None or not self._is_whole() or",
        "made_ms is None or",
        "test_a_break_between_taking_the_marker_and_meeting_it_voids_it",
    ),
    beats(
        "a marker that was away for too long is void",
        "if not self._is_whole() or self._is_hopeless(now_ms):",
        "if not self._is_whole():",
        "test_a_marker_that_was_away_for_too_long_says_nothing_and_heartbeats_begin_anew",
    ),
    beats(
        "a new orchestrator gives every lease its full length",
        "        rearmed = await self._ledger.rearm(beat_epoch=epoch)\n",
        "        rearmed = 0\n",
        "test_an_orchestrator_that_was_away_for_five_leases_takes_nothing_when_it_comes_back",
    ),
    beats(
        "after a break heartbeats begin anew",
        "        return self._breaks == self._transport.breaks\n",
        "        return self._breaks is not None\n",
        "test_confirmed_heartbeats_that_the_broker_lost_cost_nobody_a_lease",
    ),
    beats(
        "leases get their full length after heartbeats have a new place",
        "        await self._transport.begin_epoch(epoch)\n",
        "        await self._ledger.rearm(beat_epoch=epoch)\n"
        "        await self._transport.begin_epoch(epoch)\n"
        "        epoch = 0\n",
        "test_leases_are_given_their_full_length_after_heartbeats_have_a_new_place",
    ),
    beats(
        "heartbeats are taken off the list once they are in the ledger",
        "        standings = await self._ledger.renew_all(requests)\n        del self._taken[: len(requests)]\n",
        "        del self._taken[: len(requests)]\n        standings = await self._ledger.renew_all(requests)\n",
        "test_heartbeats_that_the_ledger_could_not_take_are_taken_later",
    ),
    Fence(
        "mass silence ends slowly",
        "core/brake.py",
        "    return many and",
        "    return False and many and",
        (f"{BEATS}::test_where_very_many_fall_silent_at_once_one_worker_is_given_up_every_ten_seconds",),
    ),
    Fence(
        "who was cut off is not revived by a confirmation",
        "core/lease.py",
        "if self.expired or now_ms >= self.trusted_until_ms:\n            return replace(self, expired=True)",
        "if False:\n            return self",
        (f"{BEATS}::test_who_was_cut_off_is_not_revived_by_a_mere_confirmation",),
    ),
    Fence(
        "without a broker, too, a new orchestrator gives every lease its full length",
        "orchestrator/expiry.py",
        "        if not self._is_armed:\n",
        "        if False:\n",
        (f"{BEATS}::test_without_a_broker_a_new_orchestrator_gives_every_lease_its_full_length_too",),
    ),
    offers(
        "an offer goes out once",
        "orchestrator/dispatcher.py",
        "            if offer.job_id in here:\n                return False\n",
        "",
        "test_offers_that_a_machine_keeps_until_it_has_room_do_not_pile_up",
    ),
    offers(
        "what was lost is offered again",
        "orchestrator/dispatcher.py",
        "        self._offered.drop(lane.name, lost)\n",
        "",
        "test_an_offer_that_was_lost_comes_again_within_seconds_where_the_lane_is_empty_and_slots_are_free",
    ),
    offers(
        "what lies in its lane is not offered again within seconds",
        "core/dispatch.py",
        "    if not is_empty:\n        return out_for_ms >= REOFFER_MS\n",
        "",
        "test_offers_that_a_machine_keeps_until_it_has_room_do_not_pile_up",
    ),
    offers(
        "after a break everything is offered afresh",
        "orchestrator/dispatcher.py",
        "if breaks != self._breaks or",
        "if",
        "test_after_the_broker_lost_everything_with_ten_thousand_jobs_in_line_each_starts_once",
    ),
    offers(
        "what is not taken here is shown elsewhere",
        "orchestrator/dispatcher.py",
        "return last_ms is None or (",
        "return last_ms is None or (False and ",
        "test_a_job_that_one_lane_does_not_take_is_shown_to_another_that_has_room",
    ),
    Fence(
        "what happens to a job ends its offers in every lane",
        "orchestrator/offered.py",
        "for lane in tuple(self._jobs.get(job_id, ())):",
        "for lane in tuple(self._jobs.get(job_id, ()))[:1]:",
        ("tests/orchestrator/test_offered.py::test_what_happens_to_a_job_ends_its_offers_in_every_lane",),
    ),
    offers(
        "it is shown elsewhere only after a while",
        "orchestrator/dispatcher.py",
        "(has_room and now_ms - last_ms >= ELSEWHERE_AFTER_MS)",
        "has_room",
        "test_a_job_that_one_lane_does_not_take_is_shown_to_another_that_has_room",
    ),
    offers(
        "a rate is kept",
        "orchestrator/dispatcher.py",
        "self._buckets[offer.kind] = bucket.take(1)",
        "self._buckets[offer.kind] = bucket",
        "test_a_rate_is_kept_over_time_and_holds_up_no_other_kind",
    ),
    offers(
        "a kind that used up its rate holds up no other",
        "orchestrator/dispatcher.py",
        "if not each.missing and each.kind not in dry",
        "if not each.missing",
        "test_a_rate_is_kept_over_time_and_holds_up_no_other_kind",
    ),
    offers(
        "namespaces share a lane",
        "core/dispatch.py",
        "order = [(holds.get(name, 0), turns.get(name, -1), name, 0)",
        "order = [(0, 0, name, 0)",
        "test_twenty_namespaces_share_a_machine_whatever_they_have_in_line",
    ),
    offers(
        "what runs counts in a namespace's share",
        "orchestrator/dispatcher.py",
        "            holds[line.namespace] += line.running if (line.kind, line.version) in lane.kinds else 0\n",
        "            pass\n",
        "test_a_namespace_with_long_jobs_gets_no_more_slots_than_the_others",
    ),
    offers(
        "in a fleet, too, the oldest job has its turn",
        "orchestrator/dispatcher.py",
        "oldest_at=oldest_at(self._since_oldest[lane.name, namespace], want)",
        "oldest_at=None",
        "test_the_oldest_job_is_one_in_ten_however_urgent_the_others",
    ),
    offers(
        "who takes no work is offered none",
        "orchestrator/roster.py",
        'if row.state != "ready":',
        "if False:",
        "test_who_drains_or_breaks_is_offered_nothing",
    ),
    offers(
        "a busy machine is offered little",
        "core/dispatch.py",
        "PER_FREE_SLOT * free + starts_per_s",
        "PER_FREE_SLOT * slots",
        "test_a_machine_that_is_busy_with_a_long_job_is_offered_nothing",
    ),
    contract(
        "a fleet lets its workers register first",
        "ledger/sqlite/fleet.py",
        "return self._clock.boot_ms() >= self._warm_from_ms",
        "return True",
        "TestFleet::test_an_orchestrator_that_has_just_started_lets_workers_register_first",
    ),
    contract(
        "what is declared counts while it is away",
        "core/routing.py",
        "    known += [each.as_worker(now_ms) for each in declared]\n",
        "",
        "TestFleet::test_what_a_declared_class_could_run_waits_for_it_however_long_it_is_away",
    ),
    contract(
        "a declaration alone makes no fleet",
        "core/routing.py",
        "    if not known:\n        return Cold()\n    known += [each.as_worker(now_ms) for each in declared]\n",
        "    known += [each.as_worker(now_ms) for each in declared]\n    if not known:\n        return Cold()\n",
        "TestFleet::test_a_fleet_of_which_nobody_ever_registered_knows_nothing",
    ),
]
