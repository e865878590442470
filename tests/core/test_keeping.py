"""When the wall clock may be believed: it only moves as the boottime says, and has done so for a day."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from planrun.core.keeping import DOUBT_MS, STEP_MS_MAX, Glance, archive_file, glance

WALL_MS = 1_790_000_000_000
TRUSTED = Glance(wall_ms=WALL_MS, boot_ms=10_000, epoch="boot", doubt_ms=0)


def look(last: Glance | None, *, passed_ms: int = 0, stepped_ms: int = 0, epoch: str = "boot") -> Glance:
    at = last or TRUSTED
    boot_ms = at.boot_ms + passed_ms if epoch == at.epoch else passed_ms
    return glance(last, wall_ms=at.wall_ms + passed_ms + stepped_ms, boot_ms=boot_ms, epoch=epoch)


def test_a_ledger_that_was_never_looked_after_is_doubted_for_a_day() -> None:
    first = look(None)

    assert first.doubt_ms == DOUBT_MS
    assert look(first, passed_ms=DOUBT_MS - 1).doubt_ms == 1
    assert look(first, passed_ms=DOUBT_MS).doubt_ms == 0


def test_a_step_either_way_begins_a_day_of_doubt_and_drift_does_not() -> None:
    assert look(TRUSTED, stepped_ms=STEP_MS_MAX + 1).doubt_ms == DOUBT_MS
    assert look(TRUSTED, stepped_ms=-STEP_MS_MAX - 1).doubt_ms == DOUBT_MS
    assert look(TRUSTED, stepped_ms=STEP_MS_MAX).doubt_ms == 0


def test_a_machine_that_was_off_for_days_is_doubted_and_one_that_rebooted_is_not() -> None:
    assert look(TRUSTED, stepped_ms=60_000, epoch="next boot").doubt_ms == 0
    assert look(TRUSTED, stepped_ms=2 * STEP_MS_MAX, epoch="next boot").doubt_ms == DOUBT_MS


def test_time_that_passes_while_nobody_looks_is_no_step() -> None:
    assert look(TRUSTED, passed_ms=100 * STEP_MS_MAX).doubt_ms == 0


@given(st.lists(st.integers(0, DOUBT_MS)), st.integers(STEP_MS_MAX + 1, 10**13))
def test_after_a_step_nothing_is_believed_before_a_day_has_run(passed: list[int], step_ms: int) -> None:
    seen = look(TRUSTED, stepped_ms=step_ms)
    run_ms = 0
    for some_ms in passed:
        seen = look(seen, passed_ms=some_ms)
        run_ms += some_ms

        assert (seen.doubt_ms == 0) == (run_ms >= DOUBT_MS)


def test_the_archive_has_a_file_per_day() -> None:
    assert archive_file(1_790_000_000_000) == "2026-09-21.ndjson"
