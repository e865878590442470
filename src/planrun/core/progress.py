"""How long a running job may still take, from what it said of itself.

The pace is the average since the attempt's progress began: that smooths what jumps, and a stall makes the estimate
grow instead of leaving an old promise standing. Progress begins with the first fraction of an attempt, so what a
checkpoint brought along is not counted as speed; where the fraction jumps back, it begins anew.
"""

from __future__ import annotations

from planrun.core.life import State
from planrun.core.messages import JobRow

DONE_MIN = 0.02  # less of the work says nothing about the rest
SEEN_MS_MIN = 5_000
LEFT_MS_MAX = 30 * 86_400_000  # what would take longer is no estimate


def left_ms(job: JobRow, *, wall_ms: int) -> int | None:
    """The time that a job will still take if it goes on like this; None: nobody can say yet.

    Args:
        wall_ms: Now, by the clock of the ledger's machine.
    """
    if job.state is not State.RUNNING or job.fraction is None:
        return None
    if job.began_fraction is None or job.began_at_ms is None:
        return None
    done, seen_ms = job.fraction - job.began_fraction, wall_ms - job.began_at_ms
    if done < DONE_MIN or seen_ms < SEEN_MS_MIN or job.fraction >= 1:
        return None
    left = round((1 - job.fraction) * seen_ms / done)
    return left if left <= LEFT_MS_MAX else None
