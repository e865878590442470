"""L6, nobody starves: who has waiting jobs gets one within as many starts as there are others, however much those have.

No check of random histories: eight jobs are too few to wait long. On a box, whose workers take their jobs themselves,
the order is that of urgency and age alone.
"""

from __future__ import annotations

from planrun.core.dispatch import PER_FREE_SLOT
from planrun.sim.jobs import Deed
from planrun.sim.settings import Mode, Order
from tests.sim.story import Story, few_seeds

BUSY, SMALL = 40, ("ads", "news")
LATE_S = 6.0
WORKERS = 2


def orders() -> tuple[Order, ...]:
    """One namespace has much to do from the beginning on; two come later, with a job every few seconds."""
    busy = [Order(n=n, namespace="films") for n in range(BUSY)]
    small = [
        Order(n=100 * (1 + which) + k, namespace=name, at_s=LATE_S + 4 * k)
        for which, name in enumerate(SMALL)
        for k in range(4)
    ]
    return (*busy, *small)


@few_seeds
def test_l6_a_namespace_with_few_jobs_waits_for_one_of_each_other_and_not_for_all_that_they_have(seed: int) -> None:
    wanted = orders()
    with Story(
        "L6", seed, mode=Mode.FLEET, workers=WORKERS, orders=wanted, deed_of=lambda n, attempt: Deed(runs_s=1)
    ) as story:
        story.run()
        handed_in_s = {each.n: each.at_s for each in wanted}
        others = len(SMALL)  # for each namespace there are so many others
        out = PER_FREE_SLOT * WORKERS  # are offered already, and cannot be overtaken
        for start in story.starts:
            if start.n >= BUSY:
                before = [other for other in story.starts if handed_in_s[start.n] + 1 < other.at_s < start.at_s]
                assert len(before) <= others + out, (start, before)

        assert sorted(start.n for start in story.starts) == sorted(each.n for each in wanted)
