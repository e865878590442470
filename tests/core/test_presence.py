"""How a worker is shown to people: as it is, not as it last said of itself."""

from __future__ import annotations

import pytest

from planrun.core.messages import WorkerRow
from planrun.core.presence import presence


@pytest.mark.parametrize(
    ("said", "dead", "running", "shown"),
    [
        ("ready", False, 1, "ready"),
        ("ready", True, 0, "lost"),
        ("broken", True, 0, "lost"),
        ("draining", False, 1, "draining"),
        ("draining", True, 0, "gone"),
        ("draining", True, 1, "lost"),  # it was killed before it had handed its job back
        ("gone", True, 0, "gone"),
    ],
)
def test_a_dead_worker_is_lost_unless_it_left_as_it_was_asked_to(
    said: str, dead: bool, running: int, shown: str
) -> None:
    """C74."""
    worker = WorkerRow(incarnation="w1", name="box-1", host="box", slots=2, state=said, seen_at_ms=1_000)

    [seen] = presence(
        [worker], running={"w1": running} if running else {}, dead={"w1"} if dead else set(), wall_ms=4_000
    )

    assert (seen.state, seen.running, seen.silent_ms) == (shown, running, 3_000)
