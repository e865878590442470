"""Rules of a fleet: its leases, its heartbeats, its offers."""

from __future__ import annotations

from .fences import SQL
from .rules import contract

FLEET = [
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
]
