"""Scenarios C9 to C11 and C14 to C16: what may be concluded from heartbeats that do not come."""

from __future__ import annotations

from planrun.core.flows import Marker
from planrun.core.messages import RenewRequest
from planrun.sim.jobs import Deed
from planrun.sim.settings import Mode, Order, deeds
from tests.sim.sights import away, cut_off, join_late, leave, stored, times, written_s
from tests.sim.story import Job, Story, seeds

FINISHED = Job("finished", None, 1, (0, 0, 0))
FINISHED_AFTER_A_LOSS = Job("finished", None, 2, (0, 1, 0))
LONG = Deed(runs_s=100, progress_every_s=10)


@seeds
def test_c9_after_an_orchestrator_was_away_for_many_leases_nobody_who_lives_loses_one(seed: int) -> None:
    with Story("C9", seed, mode=Mode.FLEET, lease_s=10, deed_of=lambda n, attempt: LONG) as story:
        away(story, "orchestrator", from_s=3, until_s=63)
        story.run()

        assert story.job("job-1") == FINISHED
        assert [attempt.outcome for attempt in story.attempts("job-1")] == ["success"]


@seeds
def test_c10_a_sweep_ends_no_lease_while_heartbeats_wait_to_be_read(seed: int) -> None:
    with Story("C10", seed, mode=Mode.FLEET, lease_s=10, deed_of=lambda n, attempt: LONG) as story:
        story.lag_beats(at_s=5, by_s=60)
        story.run()

        assert story.job("job-1") == FINISHED
        assert [attempt.outcome for attempt in story.attempts("job-1")] == ["success"]


@seeds
def test_c11_an_orchestrator_that_crashes_again_and_again_gives_up_who_is_dead_and_nobody_else(seed: int) -> None:
    crashes_s = range(6, 60, 9)  # before a lease of its own has passed
    orders = (Order(n=1), Order(n=2, at_s=4))
    table = {(1, 1): LONG, (2, 1): LONG}
    with Story("C11", seed, mode=Mode.FLEET, orders=orders, lease_s=10, restart_s=0.5, deed_of=deeds(table)) as story:
        join_late(story, "w2", 3)
        leave(story, "w1", 5.5)
        for at_s in crashes_s:
            story.crash("orchestrator", at_s=at_s)
        story.run()

        assert (story.job("job-1"), story.job("job-2")) == (FINISHED_AFTER_A_LOSS, FINISHED)
        [lost_s] = times(story, "ledger", "lost")
        assert crashes_s[-1] + 0.5 + 12 < lost_s < crashes_s[-1] + 0.5 + 12 + 3


@seeds
def test_c14_a_heartbeat_that_no_queue_takes_is_no_confirmed_one(seed: int) -> None:
    with Story("C14", seed, mode=Mode.FLEET, lease_s=10, deed_of=lambda n, attempt: Deed(runs_s=30)) as story:
        away(story, "orchestrator", from_s=3, until_s=63)
        story.wipe_broker(at_s=3.5)
        story.run(until_s=62)
        assert story.job("job-1") == Job("running", None, 1, (0, 0, 0))
        assert stored(story, "job-1", 1) == []
        story.run()

        assert story.job("job-1") == FINISHED
        [key] = stored(story, "job-1", 1)
        assert written_s(story, key) > 63


@seeds
def test_c15_while_a_broker_takes_nothing_leases_go_on_over_the_ledger_and_settles_work(seed: int) -> None:
    orders = tuple(Order(n=n) for n in range(1, 7))
    table = {(n, 1): LONG if n > 3 else Deed(runs_s=30) for n in range(1, 7)}
    with Story("C15", seed, mode=Mode.FLEET, orders=orders, workers=6, lease_s=10, deed_of=deeds(table)) as story:
        story.broker_blocked(from_s=4, until_s=64)
        story.run(until_s=63)
        assert [story.job(f"job-{n}") for n in range(1, 4)] == [FINISHED] * 3
        [(until_ms,)] = story.rows("SELECT min(lease_until_ms) FROM job WHERE state = 'running'")
        assert until_ms > story.machines["orchestrator"].clock().boot_ms()
        story.run()

        assert [story.job(f"job-{n}") for n in range(4, 7)] == [FINISHED] * 3


@seeds
def test_also_c15_when_all_were_silent_at_once_workers_are_given_up_one_by_one(seed: int) -> None:
    """The alarm has ended, and nobody is back yet when the first marker passes."""
    orders = tuple(Order(n=n) for n in range(1, 7))
    table = {(n, 1): LONG for n in range(1, 7)}
    with Story("C15", seed, mode=Mode.FLEET, orders=orders, workers=6, lease_s=10, deed_of=deeds(table)) as story:
        story.broker_blocked(from_s=6, until_s=40)
        for n in range(1, 7):
            cut_off(story, f"w{n}", from_s=6, until_s=52)
        story.run()

        assert {start.who for start in story.starts if start.at_s < 6} == {f"w{n}" for n in range(1, 7)}
        assert 1 <= story.checks.counts.losses <= 3


@seeds
def test_c16_a_marker_says_nothing_once_the_way_of_the_heartbeats_was_broken(seed: int) -> None:
    """All heartbeats before it are lost with that way; a new one finds who is really gone."""
    orders = (Order(n=1), Order(n=2, at_s=4))
    table = {(n, 1): LONG for n in (1, 2)}
    with Story("C16", seed, mode=Mode.FLEET, orders=orders, workers=3, lease_s=10, deed_of=deeds(table)) as story:
        join_late(story, "w2", 3)
        join_late(story, "w3", 6)
        story.lag_beats(at_s=6, by_s=60)
        broken_s = break_at_first_marker(story)
        leave(story, "w2", 30)
        story.run()

        assert 16 < broken_s[0] < 20
        assert (story.job("job-1"), story.job("job-2")) == (FINISHED, FINISHED_AFTER_A_LOSS)
        [lost_s] = times(story, "ledger", "lost")
        assert 30 + 12 - 4 < lost_s < 30 + 12 + 3


def break_at_first_marker(story: Story) -> list[float]:
    """The orchestrator loses its way to the heartbeats, with all that is on it, right before a marker is put there."""
    broken_s: list[float] = []
    beat = story.broker.beat

    def beaten(item: RenewRequest | Marker) -> bool:
        if isinstance(item, Marker) and not broken_s:
            broken_s.append(story.loop.now_s)
            story.broker.lag(0)
            story.broker.break_all()
        return beat(item)

    story.broker.beat = beaten  # type: ignore[method-assign]
    return broken_s
