"""Scenarios G1 to G14: power cuts, older copies of a ledger, brokers that lose all, and what is swept meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from planrun.core.keeping import DOUBT_MS
from planrun.core.kinds import RESULT_TTL_S
from planrun.sim.disk import Copy
from planrun.sim.jobs import Deed
from planrun.sim.settings import Mode, Order, deeds
from tests.sim.sights import digest_at, join_late, leave, stored, times
from tests.sim.story import Job, Story, few_seeds, seeds

FINISHED = Job("finished", None, 1, (0, 0, 0))
FINISHED_AFTER_A_LOSS = Job("finished", None, 2, (0, 1, 0))
LONG = Deed(runs_s=100, progress_every_s=10)
EVERY_S = 300  # it is looked so often what has been kept long enough
ALL = "SELECT job_id, state, attempt, token FROM job ORDER BY job_id"


def outcomes(story: Story, name: str = "job-1") -> list[str | None]:
    return [attempt.outcome for attempt in story.attempts(name)]


# --- power cuts ---

MOMENTS: dict[str, Callable[[Story], object]] = {
    "submitted": lambda story: story.count("job") == 2,
    "granted": lambda story: story.attempts("job-2"),
    "settled": lambda story: outcomes(story, "job-2") == ["success"],
}


@pytest.mark.parametrize("seed", (1, 2))
@pytest.mark.parametrize("moment", MOMENTS)
def test_g1_what_was_committed_right_before_a_power_cut_is_there_afterwards(seed: int, moment: str) -> None:
    with Story("G1", seed, orders=(Order(n=1), Order(n=2, at_s=10))) as story:
        story.disk.copies = []
        seen = []

        def cut_power() -> None:
            seen.append(story.rows(ALL))
            story.cut_power_now("w1")
            seen.append(story.rows(ALL))

        story.when(lambda: MOMENTS[moment](story), cut_power)
        story.run()

        before, after = seen
        assert before == after
        assert story.job("job-2") == (FINISHED_AFTER_A_LOSS if moment == "granted" else FINISHED)
        assert len(story.starts) == 2
        assert story.told("job-2") == {"http://job-2-0": 1}


def test_g2_a_ledger_that_does_not_wait_for_its_disk_breaks_its_word_at_a_power_cut() -> None:
    """The control of G1."""
    found = set()
    for seed in range(1, 9):
        with Story("G2", seed, orders=(Order(n=1, at_s=1),)) as story:
            story.run(until_s=0.9)
            story.disk.copies = []
            for ledger in story.opened:
                story.pragma(ledger, "synchronous", "normal")
            story.when(lambda: story.receiver.acts and outcomes(story), lambda: story.cut_power_now("w1"))
            found |= story.find()
    assert "S2" in found


# --- older copies of a ledger ---


def copy_at(story: Story, at_s: float) -> list[Copy]:
    """What a backup has that was made then, once it has been."""
    copies: list[Copy] = []
    story.disk.copies = []
    story.at(at_s, lambda: copies.append(story.disk.copies[-1]))  # type: ignore[index]
    return copies


def restore(story: Story, copies: list[Copy], *, at_s: float, recover_s: float) -> None:
    """The orchestrator dies, an older copy is put in its place, and after a while it is started with `--recover`."""

    def put_back() -> None:
        story.crash_now("orchestrator")
        story.put_back(copies[0])
        story.checks.restored()

    def recover() -> None:
        story.hub.recovers = True

    story.at(at_s, put_back)
    story.at(recover_s, recover)


def backed_up(name: str, seed: int, *, strict: bool) -> Story:
    """Three jobs: one whose answer comes after the backup, one that runs through, and one that comes later."""
    orders = (Order(n=1), Order(n=2), Order(n=3, at_s=8, waits=False))
    table = {(1, 1): Deed(runs_s=5), (2, 1): LONG, (2, 2): LONG}
    return Story(name, seed, mode=Mode.FLEET, orders=orders, workers=3, strict=strict, deed_of=deeds(table))


@seeds
def test_g3_an_hour_old_backup_learns_which_answers_were_given_and_gives_no_second_one(seed: int) -> None:
    with backed_up("G3", seed, strict=True) as story:
        copies = copy_at(story, 4)
        restore(story, copies, at_s=20, recover_s=30)
        story.run(until_s=19)
        assert (story.told("job-1"), story.told("job-3")) == ({"http://job-1-0": 1}, {"http://job-3-0": 1})
        answer = story.answers["job-1"]
        story.run(until_s=29)
        assert times(story, "orchestrator", "ends: this ledger must not be run as it is")
        again = story.ask(40, lambda client: client.wait(story.id_of("job-1")))
        story.run()

        assert story.job("job-1") == FINISHED
        assert again.answer == answer
        assert (story.told("job-1"), story.told("job-2")) == ({"http://job-1-0": 1}, {"http://job-2-0": 1})
        assert [start.attempt for start in story.starts if start.n == 1] == [1]
        job = story.job("job-2")
        assert job is not None
        assert job.state == "finished"


def test_g4_without_what_stands_in_the_store_an_old_backup_gives_a_second_answer() -> None:
    """The control of G3."""
    found = set()
    for seed in (1, 2):
        with backed_up("G4", seed, strict=False) as story:
            copies = copy_at(story, 4)
            restore(story, copies, at_s=20, recover_s=20)
            found |= story.find()
    assert "S2" in found


@seeds
def test_g5_an_old_orchestrator_that_still_lives_steps_down_and_gives_no_second_answer(seed: int) -> None:
    over_s = 20
    table = {(1, 1): Deed(runs_s=5), (2, 1): LONG, (2, 2): LONG, (3, 1): Deed(runs_s=10)}
    orders = tuple(Order(n=n) for n in (1, 2, 3))
    with Story("G5", seed, mode=Mode.FLEET, orders=orders, workers=3, lease_s=10, deed_of=deeds(table)) as story:
        copies = copy_at(story, 4)
        story.cut("orchestrator", "receiver", from_s=8, until_s=over_s + 5)  # it owes the answer of job-3
        story.at(over_s, lambda: story.fail_over(copies[0]))
        story.run(until_s=over_s - 1)
        assert story.told("job-1") == {"http://job-1-0": 1}
        assert (outcomes(story, "job-3"), story.told("job-3")) == (["success"], {})
        story.run()

        assert times(story, "orchestrator", "ends: generation 2 of this ledger has taken over from generation 1")
        assert times(story, "orchestrator", "ends: this ledger must not be run as it is")
        assert len(times(story, "orchestrator", "serves")) == 1
        assert (story.job("job-1"), story.job("job-3")) == (FINISHED, FINISHED)
        assert sorted(start.n for start in story.starts if start.n != 2) == [1, 3]
        assert [story.told(f"job-{n}") for n in (1, 2, 3)] == [{f"http://job-{n}-0": 1} for n in (1, 2, 3)]


@seeds
def test_g6_a_ledgers_file_that_is_an_older_copy_is_not_run_until_somebody_says_recover(seed: int) -> None:
    with Story("G6", seed, mode=Mode.FLEET, orders=(Order(n=1), Order(n=2, at_s=12))) as story:
        copies = copy_at(story, 4)
        restore(story, copies, at_s=10, recover_s=60)
        story.run(until_s=59)

        refusals = times(story, "orchestrator", "ends: this ledger must not be run as it is: it has counted to")
        assert len(refusals) >= 4  # whatever starts it again tries for ever
        assert story.rows("SELECT v FROM meta WHERE k = 'generation'") == [(1,)]
        assert story.count("job") == 1  # nobody is answered meanwhile
        story.run()
        assert story.rows("SELECT v FROM meta WHERE k = 'generation'") == [(2,)]
        assert (story.job("job-1"), story.job("job-2")) == (FINISHED, FINISHED)
        assert story.told("job-1") == {"http://job-1-0": 1}


# --- a broker that is gone, or out of reach ---


@seeds
def test_g7_with_an_empty_broker_jobs_are_offered_again_and_heartbeats_go_on(seed: int) -> None:
    wiped_s, back_s = 35, 45
    orders = (Order(n=1), Order(n=2), Order(n=3, at_s=30))
    table = {(1, 1): LONG, (2, 1): LONG}
    with Story("G7", seed, mode=Mode.FLEET, orders=orders, workers=3, lease_s=10, deed_of=deeds(table)) as story:
        join_late(story, "w3", 5)
        story.cut("w3", "broker", from_s=6, until_s=back_s)
        story.wipe_broker(at_s=wiped_s)
        story.run(until_s=wiped_s - 1)  # two run, and the offer of the third one waits for who cannot take it
        assert [offer.job_id for offer in story.lying()] == [story.id_of("job-3")]
        story.run(until_s=wiped_s + 1.2)
        assert [offer.job_id for offer in story.lying()] == [story.id_of("job-3")]
        story.run()

        assert [story.job(f"job-{n}") for n in (1, 2, 3)] == [FINISHED] * 3
        assert sorted(start.n for start in story.starts) == [1, 2, 3]
        assert story.rows("SELECT v FROM meta WHERE k = 'beat_epoch'") == [(2,)]


@seeds
def test_g8_while_the_orchestrator_does_not_reach_the_broker_nobody_is_called_dead(seed: int) -> None:
    until_s = 60
    orders = (Order(n=1), Order(n=2, at_s=4))
    table = {(1, 1): LONG, (2, 1): LONG}
    with Story("G8", seed, mode=Mode.FLEET, orders=orders, lease_s=10, deed_of=deeds(table)) as story:
        join_late(story, "w2", 3)
        story.cut("orchestrator", "broker", from_s=6, until_s=until_s)
        leave(story, "w1", 8)
        story.run()

        assert (story.job("job-1"), story.job("job-2")) == (FINISHED_AFTER_A_LOSS, FINISHED)
        [lost_s] = times(story, "ledger", "lost")
        assert lost_s > until_s


@seeds
def test_g10_offers_that_a_broker_has_lost_are_made_again(seed: int) -> None:
    """(There are no lanes in Redis in planrun yet: this is what the orchestrator does about any broker's.)"""
    lost_s, back_s = 35, 45
    orders = tuple(Order(n=n, at_s=30) for n in (1, 2, 3))
    with Story("G10", seed, mode=Mode.FLEET, orders=orders, workers=1, slots=3) as story:
        story.cut("w1", "broker", from_s=3, until_s=back_s)
        story.at(lost_s, story.broker.lanes.clear)  # and no connection breaks
        story.run(until_s=lost_s - 1)
        assert len(story.lying()) == 3
        story.run(until_s=back_s - 1)
        assert len(story.lying()) == 3
        story.run()

        assert [story.job(f"job-{n}") for n in (1, 2, 3)] == [FINISHED] * 3
        assert sorted(start.n for start in story.starts) == [1, 2, 3]
        assert 6 <= len(story.sent) <= 7  # what is in hand, and not granted yet, lies nowhere: it may be made once more


# --- what is done twice, late, or meanwhile ---


@seeds
def test_g9_what_a_relay_hands_in_again_after_its_crash_is_one_job_each(seed: int) -> None:
    """It dies when it has handed in some, before it has noted any. (There is no such relay in planrun yet; this is what
    the ledger does with its calls.)"""
    orders = tuple(Order(n=n, at_s=2 + n / 1000) for n in range(1, 7))
    with Story("G9", seed, orders=orders, slots=3) as story:
        story.when(lambda: story.count("job") >= 3, lambda: story.crash_now("app"))
        story.run()

        assert len(times(story, "app", "crashes")) == 1
        assert story.count("job") == len(story.starts) == 6
        told = [story.dispositions(f"job-{n}") for n in range(1, 7)]
        assert ["repeated"] in told
        assert [story.told(f"job-{n}") for n in range(1, 7)] == [{f"http://job-{n}-0": 1} for n in range(1, 7)]


@seeds
def test_g11_who_waits_for_a_busy_ledger_trusts_itself_from_when_it_asked(seed: int) -> None:
    lease_s = 6
    with Story("G11", seed, lease_s=lease_s, deed_of=lambda n, attempt: LONG) as story:
        join_late(story, "w2", 2)
        story.disk_busy(from_s=12, until_s=22)
        story.disk_busy(from_s=40, until_s=44)
        story.disk_busy(from_s=44.0004, until_s=49)  # when the heartbeat that waited is done, and no other one is
        story.run(until_s=12.1)
        [(incarnation, token, beat_ms)] = story.rows("SELECT incarnation, token, lease_until_ms FROM job")
        assert story.trusts_itself(incarnation, token)
        story.run(until_s=21.9)
        assert not story.trusts_itself(incarnation, token)
        assert story.rows("SELECT lease_until_ms FROM job") == [(beat_ms,)]

        story.run(until_s=44.0003)
        assert story.rows("SELECT lease_until_ms > ? FROM job", beat_ms + 25_000) == [(1,)]
        story.run(until_s=40 + lease_s / 3 + lease_s + 0.1)
        assert not story.trusts_itself(incarnation, token)  # it had asked by its next heartbeat after 40 s
        story.run()
        assert story.job("job-1") == FINISHED
        assert outcomes(story) == ["success"]


@seeds
def test_g12_garbage_is_collected_around_an_upload_that_ends_late(seed: int) -> None:
    with Story("G12", seed, lease_s=10, upload_s=(2, 2)) as story:
        join_late(story, "w2", 2)
        story.freeze("w1", at="upload:before-complete", for_s=200)
        story.run(until_s=200)
        [winner] = stored(story, "job-1", 2)
        digest = digest_at(story, winner)
        assert (stored(story, "job-1", 1), story.store.unfinished) == ([], {})  # what it had sent was removed
        story.run()
        [orphan] = stored(story, "job-1", 1)
        assert orphan in story.store.objects
        story.run(until_s=story.loop.now_s + 120)

        assert orphan not in story.store.objects
        assert story.job("job-1") == FINISHED_AFTER_A_LOSS
        assert story.store.written[winner] == [digest]
        assert digest_at(story, winner) == digest


@few_seeds
def test_g13_a_result_stays_while_somebody_is_owed_its_answer(seed: int) -> None:
    orders = (Order(n=1), Order(n=2, routes=0))
    with Story("G13", seed, orders=orders, workers=1, end_s=6000, are_archived=True) as story:
        story.cut("w1", "receiver", from_s=0, until_s=750)
        story.run(until_s=20)
        box = story.machines["w1"].hardware
        for slept_s in (DOUBT_MS / 1000, RESULT_TTL_S):  # the clock must be believed first
            box.slept_s += slept_s
            story.run(until_s=story.loop.now_s + EVERY_S + 40)
        [owed], [unowed] = stored(story, "job-1", 1), stored(story, "job-2", 1)
        assert unowed not in story.store.objects
        assert owed in story.store.objects
        assert story.job("job-1") == FINISHED
        story.run()
        assert story.told("job-1") == {"http://job-1-0": 1}
        story.run(until_s=story.loop.now_s + EVERY_S + 40)
        assert owed not in story.store.objects


@few_seeds
@pytest.mark.parametrize("mode", [Mode.BOX, Mode.FLEET])
def test_g14_after_a_reboot_of_the_ledgers_machine_leases_end_where_their_holders_did_and_else_begin_anew(
    seed: int, mode: Mode
) -> None:
    lease_s = 10
    with Story("G14", seed, mode=mode, lease_s=lease_s, proof_of_death=False, deed_of=lambda n, attempt: LONG) as story:
        join_late(story, "w2", 2)
        story.reboot("w1" if mode is Mode.BOX else "orchestrator", at_s=30)
        story.run(until_s=60)

        lost = times(story, "ledger", "lost")
        if mode is Mode.BOX:
            assert len(lost) == 1
            assert lost[0] < 30 + story.settings.restart_s + 0.5
            assert next(event.detail for event in story.events("job-1", "lost")).startswith("the machine was rebooted")
        else:
            assert lost == []
        [(epoch, known)] = story.rows("SELECT clock_epoch, (SELECT v FROM meta WHERE k = 'clock_epoch') FROM job")
        assert epoch == known
        assert epoch.endswith("boot-2")
        story.run()
        assert story.job("job-1") == (FINISHED_AFTER_A_LOSS if mode is Mode.BOX else FINISHED)
