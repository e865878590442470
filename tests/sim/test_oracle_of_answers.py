"""Tests of the tests: what an application is told, and what is counted, is held against what stands in the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from planrun.core.life import State
from planrun.sim.settings import Order, Settings
from planrun.sim.world import World
from tests.sim.test_oracle import behind_its_back, rules

ORDERS = tuple(Order(n=n, at_s=n / 2) for n in range(1, 4))


@pytest.fixture
def world() -> Iterator[World]:
    """All jobs have ended, and were answered."""
    with World(1, Settings(orders=ORDERS, workers=2, lease_s=10)) as world:
        world.run(until_s=20)
        behind_its_back(world, "DROP TRIGGER job_frozen")
        assert len(world.answers) == len(ORDERS)
        yield world


def test_two_answers_to_those_who_wait_are_found(world: World) -> None:
    first = world.settings.orders[0]
    world.checks.answered(first, replace(world.answers[first.name], state=State.CANCELED))

    assert rules(world) == {"S2"}


def test_one_call_with_two_jobs_is_found(world: World) -> None:
    first, second, _ = world.settings.orders
    world.checks.accepted(first, world.answers[second.name].job_id)

    assert rules(world) == {"S14"}


def test_an_ended_job_that_is_gone_is_found(world: World) -> None:
    behind_its_back(world, "DELETE FROM job")
    world.checks.committed(None)

    assert rules(world) == {"S14"}


def test_a_failure_that_nobody_had_is_found(world: World) -> None:
    behind_its_back(world, "UPDATE job SET failures = failures + 1")
    world.checks.committed(None)
    world.run()

    assert rules(world) == {"S11"}


def test_who_is_owed_nothing_and_asked_for_it_is_found(world: World) -> None:
    behind_its_back(world, "INSERT INTO subscriber(job_id, route) SELECT job_id, 'webhook:http://unheard-of' FROM job")
    world.run()

    assert rules(world) == {"L2"}


def test_a_result_of_a_job_that_nobody_held_is_found(world: World) -> None:
    world.checks._results.clear()  # as if it had been settled just now
    world.checks.committed(None)

    assert rules(world) == {"S7"}


def test_an_answer_that_is_not_what_was_settled_is_found(world: World) -> None:
    first = world.settings.orders[0]
    world.checks._answers.clear()  # as if nobody had asked before
    world.checks.answered(first, replace(world.answers[first.name], state=State.FAILED, outputs={}))

    assert rules(world) == {"S2"}


def test_an_answer_before_it_was_settled_is_found(world: World) -> None:
    first = world.settings.orders[0]
    behind_its_back(world, "DELETE FROM result")
    world.checks.answered(first, world.answers[first.name])

    assert rules(world) == {"S2"}


def test_one_message_too_few_and_another_too_many_are_found(world: World) -> None:
    job_id = world.answers[world.settings.orders[0].name].job_id
    behind_its_back(world, f"UPDATE subscriber SET route = 'webhook:http://unheard-of' WHERE job_id = '{job_id}'")
    world.run()

    assert rules(world) == {"L2"}
    assert len(world.checks.violations) == 2


def test_a_change_that_nobody_spoke_of_is_found_in_the_end(world: World) -> None:
    behind_its_back(world, "UPDATE job SET state = 'queued', ended_at_ms = NULL WHERE state = 'finished'")
    world.run()

    assert "S1" in rules(world)


def test_a_job_that_nobody_knows_of_and_that_never_ends_is_found(world: World) -> None:
    columns = [row[1] for row in world.checks._rows("PRAGMA table_info(job)")]
    others = ", ".join(
        name for name in columns if name not in ("id", "job_id", "request_id", "state", "kind", "ended_at_ms")
    )
    behind_its_back(
        world,
        f"INSERT INTO job(job_id, request_id, state, kind, {others})"
        f" SELECT job_id || '-x', request_id || '-x', 'queued', 'of-nobody', {others} FROM job LIMIT 1",
    )
    world.run()

    assert rules(world) == {"L1"}


def test_a_call_that_is_refused_without_a_reason_is_found(world: World) -> None:
    world.checks.refused(world.settings.orders[0])

    assert rules(world) == {"S14"}
