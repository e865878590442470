"""Runs of the lab: the shipped code in virtual time. Who did what in which second, and what is said of it."""

from __future__ import annotations

import msgspec
import pytest

from planrun.sim.lab.history import History, Lane, Tally, Tone, What
from planrun.sim.lab.run import run
from planrun.sim.lab.settings import PRESETS, Choice, Fault, Moment, Preset, Settings, Switch

MOMENT_MS = 50  # what the code itself takes


def seen(history: History, what: What) -> list[tuple[float, Lane, int | None]]:
    """When, who, and with which token."""
    return [(round(point.at_ms / 1000, 1), point.lane, point.token) for point in history.points if point.what is what]


def happened(history: History, at_s: float, lane: Lane, what: What, token: int) -> bool:
    return any(
        abs(point.at_ms - at_s * 1000) <= MOMENT_MS
        for point in history.points
        if (point.lane, point.what, point.token) == (lane, what, token)
    )


def up_to_the_write(history: History) -> bool:
    """The seconds of the stalled worker, until A comes back."""
    return (
        happened(history, 0, Lane.A, What.GRANT, 33)
        and happened(history, 2, Lane.A, What.FREEZE, 33)
        and happened(history, 10, Lane.LEDGER, What.EXPIRE, 33)
        and happened(history, 10, Lane.B, What.GRANT, 34)
        and happened(history, 11, Lane.STORE, What.STORE, 34)
        and happened(history, 14, Lane.A, What.THAW, 33)
    )


def test_one_key_without_fencing_is_overwritten_by_the_stalled_worker() -> None:
    history = run(PRESETS[Preset.STALLED])

    assert up_to_the_write(history)
    assert happened(history, 14, Lane.STORE, What.OVERWRITE, 33)
    assert history.sentence == (
        "At 14 s worker A (token 33), whose lease expired at 10 s, overwrote the result that worker B (token 34) had "
        "stored at 11 s; the answer that went out now points at the wrong bytes."
    )
    assert (history.is_lab_store, history.tone, history.tally.answers) == (True, Tone.HARM, 1)


def test_fencing_refuses_the_same_write() -> None:
    history = run(Choice(fencing=Switch.ON).settings())

    assert up_to_the_write(history)
    assert happened(history, 14, Lane.STORE, What.REFUSE, 33)
    assert history.sentence == (
        "At 14 s the store refused the late write of worker A (token 33), whose lease expired at 10 s, because it had "
        "already taken token 34 from worker B: one result, one answer."
    )


def test_with_a_key_for_each_attempt_nothing_is_overwritten_and_the_late_settle_is_lost() -> None:
    history = run(Choice(attempt_keys=Switch.ON).settings())

    assert up_to_the_write(history)
    assert happened(history, 14, Lane.STORE, What.ASIDE, 33)
    assert happened(history, 14, Lane.LEDGER, What.LOST, 33)
    assert (history.tally.overwritten, history.tally.files, history.tally.answers) == (0, 2, 1)
    assert history.sentence.startswith("At 14 s the ledger refused worker A (token 33)")


def test_a_crash_just_before_the_acknowledgement_runs_the_job_twice_and_answers_once() -> None:
    history = run(PRESETS[Preset.CRASH])

    assert [token for _, _, token in seen(history, What.GRANT)] == [33, 34]
    assert (history.tally.starts, history.tally.files, history.tally.answers) == (2, 2, 1)
    assert "Worker A crashed at 5 s with its file stored and nothing settled" in history.sentence
    assert "one result and one answer came of it" in history.sentence


def test_a_crash_just_after_the_acknowledgement_runs_nothing_again() -> None:
    history = run(Choice(preset=Preset.CRASH, moment=Moment.REPLY).settings())

    assert (history.tally.starts, history.tally.answers) == (1, 1)
    assert "nobody ran it again" in history.sentence


def test_a_deploy_hands_the_job_back_at_once() -> None:
    history = run(PRESETS[Preset.DEPLOY])

    assert seen(history, What.BACK)[0][0] <= 4.2
    assert seen(history, What.GRANT)[1][0] <= 4.2
    assert seen(history, What.EXPIRE) == []
    assert "no retry was used up" in history.sentence


def test_who_is_cut_off_works_on_and_stores_nothing_once_it_is_heard_again() -> None:
    history = run(PRESETS[Preset.BLIP])

    assert seen(history, What.UNHEARD)[0] == (3.0, Lane.A, 33)
    assert [lane for _, lane, _ in seen(history, What.UPLOAD)] == [Lane.B]
    assert (history.is_fleet, history.tally.files, history.tally.overwritten, history.tally.answers) == (True, 1, 0, 1)
    assert "worker A (token 33), whose lease expired at" in history.sentence
    assert "was told that it no longer held the lease" in history.sentence


def test_a_paused_machine_trusts_its_own_clock_and_the_fence_does_not() -> None:
    """Between the last look at its lease and its write no time has passed, as far as A can know."""
    history = run(PRESETS[Preset.VM_PAUSE])

    assert [token for _, _, token in seen(history, What.ASIDE)] == [33]
    assert [token for _, _, token in seen(history, What.LOST)] == [33]
    assert [token for _, _, token in seen(history, What.WON)] == [34]
    assert (history.tally.overwritten, history.tally.answers) == (0, 1)


def test_the_same_pause_overwrites_where_the_job_has_one_key() -> None:
    history = run(Choice(preset=Preset.VM_PAUSE, attempt_keys=Switch.OFF).settings())

    assert [token for _, _, token in seen(history, What.OVERWRITE)] == [33]
    assert history.tone is Tone.HARM


def test_while_the_orchestrator_stands_still_nobody_loses_a_job() -> None:
    history = run(Choice(fault=Fault.ORCHESTRATOR, job_a_s=4, for_s=20).settings())

    assert (history.tally.starts, history.tally.answers) == (1, 1)
    assert len(seen(history, What.TRUSTS)) == 1
    assert history.sentence.startswith("Nobody took over while the orchestrator stood still")


def test_whoever_wakes_in_time_keeps_the_job() -> None:
    history = run(Choice(for_s=4).settings())

    assert seen(history, What.WON) == [(6.0, Lane.LEDGER, 33)]
    assert history.sentence.startswith("Nobody took over: worker A (token 33)")


def test_a_holder_renews_as_often_as_it_is_told_and_when_it_asks_before_its_upload() -> None:
    history = run(Choice(fault=Fault.NONE, job_a_s=7, renew_every_s=2.0).settings())

    assert [at_s for at_s, _, _ in seen(history, What.RENEW)] == [2, 4, 6, 7]


def test_who_renews_too_rarely_for_its_upload_begins_anew_until_the_picture_ends() -> None:
    """In a fleet the ledger waits longer than the holder, so nobody takes over."""
    lease = Settings(lease_s=1.2, renew_every_s=2.2, job_a_s=0.1, upload_s=17.2, attempt_keys=True)
    history = run(msgspec.structs.replace(lease, fault=Fault.ORCHESTRATOR, moment=Moment.UPLOAD, for_s=0.1))

    assert history.tally == Tally(starts=1, files=0, overwritten=0, refused=0, answers=0)
    assert "has not ended within this picture, for nobody keeps a lease of 1.2 s" in history.sentence


@pytest.mark.parametrize(
    ("settings", "other"),
    [
        (Settings(fault=Fault.NONE), {"moment": Moment.SETTLE, "at_s": 0.5, "for_s": 1.0}),
        (PRESETS[Preset.CRASH], {"at_s": 0.5, "fencing": True}),
        (PRESETS[Preset.BLIP], {"fencing": True}),
    ],
    ids=["nothing", "crash", "blip"],
)
def test_what_is_called_idle_changes_nothing(settings: Settings, other: dict[str, object]) -> None:
    changed = msgspec.structs.replace(settings, **other)

    assert settings.idle.keys() == other.keys()
    assert msgspec.json.encode(run(changed).points) == msgspec.json.encode(run(settings).points)


def test_equal_settings_are_equal_runs() -> None:
    settings = PRESETS[Preset.CRASH]

    assert msgspec.json.encode(run(settings)) == msgspec.json.encode(run(settings))
