"""The holder's own deadline: from sending, sticky, only the ledger revives it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from planrun.core.lease import HeldLease, heartbeat_ms

LEASE_MS = 60_000


def a_lease(*, until_ms: int = LEASE_MS, expired: bool = False) -> HeldLease:
    return HeldLease(
        job_id="j", attempt=1, token=1, lease_ms=LEASE_MS, trusted_until_ms=until_ms, expired=expired
    )  # fmt: skip


times = st.integers(0, 10 * LEASE_MS)
# A story is told in the order of the clock: (what happens, how long after the step before, how old the evidence is).
stories = st.lists(
    st.tuples(
        st.sampled_from(["confirmed", "answered", "observed"]), st.integers(0, LEASE_MS), st.integers(0, LEASE_MS)
    ),
    max_size=30,
)


def told(story: list[tuple[str, int, int]]) -> list[tuple[str, int, int, HeldLease]]:
    """What the lease looked like after each step: (what, now, sent, lease)."""
    lease, now_ms = a_lease(), 0
    seen = []
    for what, later_ms, age_ms in story:
        now_ms += later_ms
        sent_ms = max(0, now_ms - age_ms)
        if what == "confirmed":
            lease = lease.confirmed(sent_ms=sent_ms, now_ms=now_ms)
        elif what == "answered":
            lease = lease.answered(sent_ms=sent_ms)
        else:
            lease = lease.observed(now_ms=now_ms)
        seen.append((what, now_ms, sent_ms, lease))
    return seen


def test_trust_ends_at_the_deadline_and_not_a_millisecond_later() -> None:
    lease = a_lease()

    assert lease.is_trusted(now_ms=LEASE_MS - 1)
    assert not lease.is_trusted(now_ms=LEASE_MS)


def test_trust_counts_from_the_sending_not_from_the_answer() -> None:
    """A confirmation that took 20 s buys 20 s less."""
    lease = a_lease().confirmed(sent_ms=10_000, now_ms=30_000)

    assert lease.trusted_until_ms == 10_000 + LEASE_MS


def test_a_confirmation_that_comes_too_late_does_not_revive_the_lease_nor_does_the_next() -> None:
    late = a_lease().confirmed(sent_ms=LEASE_MS - 1, now_ms=LEASE_MS)
    later = late.confirmed(sent_ms=LEASE_MS + 1, now_ms=LEASE_MS + 2)

    assert late.expired
    assert later == late
    assert not later.is_trusted(now_ms=0)
    assert later.answered(sent_ms=LEASE_MS + 1).is_trusted(now_ms=2 * LEASE_MS)


@given(stories)
def test_a_confirmation_never_revives_an_expired_lease(story: list[tuple[str, int, int]]) -> None:
    before = a_lease()
    for what, now_ms, _, lease in told(story):
        if what == "confirmed" and not before.is_trusted(now_ms=now_ms):
            assert lease.expired
            assert not lease.is_trusted(now_ms=0)
        before = lease


@given(stories)
def test_only_an_answer_of_the_ledger_lifts_expiry(story: list[tuple[str, int, int]]) -> None:
    was_expired = False
    for what, _, _, lease in told(story):
        if was_expired and not lease.expired:
            assert what == "answered"
        if what == "answered":
            assert not lease.expired
        was_expired = lease.expired


@given(stories)
def test_the_deadline_never_moves_back_and_never_passes_the_last_sending_by_more_than_a_lease(
    story: list[tuple[str, int, int]],
) -> None:
    until_ms, last_sent_ms = LEASE_MS, 0
    for _, _, sent_ms, lease in told(story):
        last_sent_ms = max(last_sent_ms, sent_ms)
        assert until_ms <= lease.trusted_until_ms <= last_sent_ms + LEASE_MS
        until_ms = lease.trusted_until_ms


@given(stories, times)
def test_a_seen_expiry_stays_when_the_clock_is_read_lower_afterwards(
    story: list[tuple[str, int, int]], now_ms: int
) -> None:
    for _, _, _, lease in told(story):
        if lease.expired:
            assert lease.observed(now_ms=now_ms).expired
            assert not lease.is_trusted(now_ms=now_ms)


def test_looking_in_time_changes_nothing() -> None:
    lease = a_lease()

    assert lease.observed(now_ms=LEASE_MS - 1) is lease
    assert lease.observed(now_ms=LEASE_MS).expired


@given(st.integers(3, 10_000_000))
def test_a_holder_gets_at_least_two_further_heartbeats_before_its_lease_runs_out(lease_ms: int) -> None:
    assert 0 < 3 * heartbeat_ms(lease_ms) <= lease_ms
    assert heartbeat_ms(lease_ms) <= 30_000


def test_heartbeats_of_the_usual_leases() -> None:
    assert heartbeat_ms(60_000) == 20_000
    assert heartbeat_ms(90_000) == 30_000
    assert heartbeat_ms(1_000) == 333


def test_an_answer_to_an_older_renewal_does_not_move_the_deadline_back() -> None:
    """Two renewals cross; the answer to the first comes last."""
    lease = HeldLease(job_id="j", attempt=1, token=1, lease_ms=1_000, trusted_until_ms=1_000)

    assert lease.answered(sent_ms=900).answered(sent_ms=500).trusted_until_ms == 1_900
