"""Disasters of random seeds: each kind occurs, all holds; and where a guard against it is down, some seed shows it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import msgspec
import pytest

from planrun.core.generations import History, Known, Taken, generation_key
from planrun.orchestrator.generations import Generations
from planrun.sim.disk import Disk
from planrun.sim.faults import Plan, draw
from planrun.sim.history import run_plan
from planrun.sim.jobs import Deed
from planrun.sim.settings import Mode, Order, Settings
from planrun.sim.store import SimStore
from planrun.sim.world import World
from planrun.storage.probe import probe
from planrun.worker.leftovers import SCRATCH_EVERY_MS

SEEN = {
    "disk_full": "disk         is full",
    "disk_errs": "disk         has I/O errors",
    "cut_power": "is rebooted",
    "broker_blocked": "broker       blocks whoever publishes",
    "store_lies": "store        overwrites what is there",
    "restore": "operator     restores the ledger",
}
IN_FLEETS = ("broker_blocked", "store_lies", "restore")


def plans(verb: str, mode: Mode, *, first: int = 1) -> Iterator[Plan]:
    """Those of random seeds that have such an act. `first`: earlier ones are known to show nothing."""
    drawn = (draw(seed, mode=mode) for seed in range(first, 121))
    return (plan for plan in drawn if any(act.verb == verb for act in plan.acts))


def broken(plans: Iterator[Plan]) -> str:
    """The first rule that one of them breaks; empty: none."""
    found = (report.violations[0].rule for plan in plans if (report := run_plan(plan)).violations)
    return next(found, "")


@pytest.mark.parametrize(
    ("verb", "mode"),
    [(verb, mode) for verb in SEEN for mode in Mode if mode is Mode.FLEET or verb not in IN_FLEETS],
)
def test_each_kind_occurs_and_all_holds(verb: str, mode: Mode) -> None:
    report = run_plan(next(plans(verb, mode)), traced=True)

    assert SEEN[verb] in report.trace
    assert report.violations == ()


def test_a_disaster_changes_nothing_else_of_a_seed() -> None:
    before = draw(5, mode=Mode.FLEET)
    verbs = ["recovery" if "recovery" in act.args.get("at", "") else act.verb for act in before.acts]

    assert {"restore", "recovery"} <= {*verbs}
    assert "restore" not in [act.verb for act in draw(4, mode=Mode.FLEET).acts]
    assert verbs == sorted(verbs, key=lambda verb: verb in (*SEEN, "recovery"))  # they come last


def test_commits_that_do_not_wait_for_the_disk_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Disk, "is_hasty", lambda disk: True)

    assert broken(plans("cut_power", Mode.BOX, first=11)) == "S4"


def test_a_connection_that_does_not_wait_for_the_disk_is_hasty() -> None:
    with World(1, draw(1, mode=Mode.BOX).settings) as world:
        world.run(until_s=1)
        assert not world.disk.is_hasty()
        world.opened[0]._writer._connection.pragma("synchronous", "normal")  # type: ignore[attr-defined]
        assert world.disk.is_hasty()


def test_a_restore_without_a_new_generation_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def take(generations: Generations, history: History, known: Known, *, recovering: bool) -> None:
        number = max(1, history.generation)
        taken = known.generations.get(number) or Taken(owner=generations._clock.new_id(), at_ms=0)
        generations._store.put_if_absent(generation_key(history.uuid, number), msgspec.json.encode(taken))
        seal_key = generations._clock.new_id()
        await generations._chronicle.take_generation(number, taken.owner, seal_key=seal_key, recovering=recovering)

    monkeypatch.setattr(Generations, "_take", take)

    assert broken(plans("restore", Mode.FLEET, first=5)) == "S4"


def test_what_runs_and_was_forgotten_by_a_restore_keeps_its_scratch_until_its_worker_hears() -> None:
    """Seed 2585: it was collected under the job that ran, and the worker took that for a fault of its own."""
    settings = Settings(
        mode=Mode.FLEET,
        orders=(Order(n=1, at_s=3),),
        workers=1,
        lease_s=60,
        deed_of=lambda n, attempt: Deed(runs_s=45),
        end_s=600,
    )
    with World(1, settings) as world:
        world.restore(copied_s=2, at_s=6, recover_s=6)
        world.lag_beats(at_s=6, by_s=60)
        world.run(until_s=SCRATCH_EVERY_MS / 1000 + 0.5)
        [folder] = (world.folder / "w1" / "remote.scratch").glob("1*")
        assert len(world.running()) == 1
        world.run()

    assert world.checks.violations == []
    assert not folder.exists()


def test_a_restore_without_manifests_is_found() -> None:
    lax = (replace(plan, settings=replace(plan.settings, strict=False)) for plan in plans("restore", Mode.FLEET))

    assert broken(lax) in ("L1", "S1", "S2")


def test_what_the_shipped_probe_says_of_a_store_that_lies() -> None:
    with World(1, draw(1).settings) as world:
        store = SimStore(world.loop)
        assert probe(store, "one").creates_once
        store.honours_absent = False
        report = probe(store, "two")

    assert not report.creates_once
    assert "OVERWRITES objects" in report.problems[0]
