"""Running one history, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass

from planrun.sim.faults import Plan, draw
from planrun.sim.findings import Counts, Violation
from planrun.sim.settings import Mode
from planrun.sim.world import World


@dataclass(frozen=True, slots=True)
class Report:
    """Attributes:
    violations: Empty: all has held.
    trace: What happened, if it was to be written down.
    steps, lasted_s: Callbacks that ran, and true time of the simulated world.
    """

    plan: Plan
    violations: tuple[Violation, ...]
    counts: Counts
    trace: str
    steps: int
    lasted_s: float


def run_plan(plan: Plan, *, traced: bool = False) -> Report:
    """Run a history to its end, or to its first violation."""
    with World(plan.seed, plan.settings, traced=traced) as world:
        for act in plan.acts:
            getattr(world, act.verb)(**act.args)
        world.run()
        return Report(
            plan=plan,
            violations=tuple(world.checks.violations),
            counts=world.checks.counts,
            trace=str(world.trace or ""),
            steps=world.loop.steps,
            lasted_s=world.loop.now_s,
        )


def run_seed(seed: int, *, jobs: int = 8, mode: Mode | None = None, traced: bool = False) -> Report:
    """Draw the history of a seed, and run it."""
    return run_plan(draw(seed, jobs=jobs, mode=mode), traced=traced)
