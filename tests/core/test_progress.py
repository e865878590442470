"""Time left: an average that says nothing before it means something, and never promises what has stalled."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planrun.core.life import State
from planrun.core.messages import JobRow
from planrun.core.progress import DONE_MIN, SEEN_MS_MIN, left_ms

BEGAN_MS = 1_000_000


def a_job(fraction: float | None, *, began: float | None = 0.0, state: State = State.RUNNING) -> JobRow:
    return JobRow(
        job_id="j", namespace="default", kind="preview", version="v1", state=state, attempt=1, failures=0,
        max_attempts=4, losses=0, max_losses=8, handbacks=0, max_handbacks=20, created_at_ms=0,
        fraction=fraction, began_fraction=began, began_at_ms=None if began is None else BEGAN_MS,
    )  # fmt: skip


def left_after(seconds: float, job: JobRow) -> int | None:
    return left_ms(job, wall_ms=BEGAN_MS + round(seconds * 1000))


def test_a_quarter_in_a_minute_leaves_three() -> None:
    assert left_after(60, a_job(0.25)) == 180_000


@pytest.mark.parametrize(
    ("seconds", "job"),
    [
        (60, a_job(None)),
        (60, a_job(0.5, began=None)),  # written by a worker that does not know where it began
        (60, a_job(0.5, state=State.QUEUED)),
        (60, a_job(DONE_MIN / 2)),
        (SEEN_MS_MIN / 1000 - 1, a_job(0.5)),
        (60, a_job(1.0)),
        (60, a_job(0.2, began=0.5)),
        (-60, a_job(0.5)),  # the wall clock was stepped
        (40 * 86_400, a_job(0.3)),
    ],
)
def test_nothing_is_said_before_it_means_something(seconds: float, job: JobRow) -> None:
    assert left_after(seconds, job) is None


def test_what_a_checkpoint_brought_along_is_no_speed() -> None:
    """From 0.8 to 0.9 in a minute: a minute is left, not seven seconds."""
    assert left_after(60, a_job(0.9, began=0.8)) == pytest.approx(60_000, abs=1)


def test_a_stall_makes_the_estimate_grow() -> None:
    estimates = [left_after(seconds, a_job(0.5)) for seconds in (60, 120, 600)]

    assert estimates == [60_000, 120_000, 600_000]


@given(st.floats(0, 1), st.floats(0, 1), st.integers(-(10**9), 10**9))
def test_an_estimate_is_never_negative(began: float, fraction: float, passed_ms: int) -> None:
    left = left_ms(a_job(fraction, began=began), wall_ms=BEGAN_MS + passed_ms)

    assert left is None or left >= 0
