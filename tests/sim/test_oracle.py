"""Tests of the tests: what is planted in the world, behind the code's back, the oracle finds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import apsw
import pytest

from planrun.core.life import Outcome
from planrun.sim.jobs import Deed, SimProcess
from planrun.sim.settings import Mode, Order, Settings, fails
from planrun.sim.world import World
from planrun.worker.happenings import Exited


@pytest.fixture
def world() -> Iterator[World]:
    orders = tuple(Order(n=n, at_s=n / 2) for n in range(1, 4))
    with World(1, Settings(orders=orders, workers=2, lease_s=10)) as world:
        yield world


def behind_its_back(world: World, statement: str) -> None:
    connection = apsw.Connection(str(world.disk.path))
    connection.execute(statement)
    connection.close()


def rules(world: World) -> set[str]:
    return {violation.rule for violation in world.checks.violations}


def test_nothing_is_found_where_nothing_is_wrong(world: World) -> None:
    world.run()

    assert rules(world) == set()
    assert world.checks.counts.jobs == world.checks.counts.messages == 3


def test_a_job_that_was_lost_is_found(world: World) -> None:
    world.run(until_s=2.1)
    behind_its_back(world, "DELETE FROM job WHERE state = 'queued'")
    world.run()

    assert rules(world) & {"L1", "S14"}


def test_a_second_message_that_says_something_else_is_found(world: World) -> None:
    world.run(until_s=9)
    msg_id = next(iter(world.receiver.acts))
    body = world.checks.bodies[msg_id]
    world.receiver.take(msg_id, body.replace('"state":"finished"', '"state":"canceled"'))
    world.run()

    assert "S2" in rules(world)


def test_a_message_of_a_job_that_has_not_ended_is_found(world: World) -> None:
    world.run(until_s=9)
    body = next(iter(world.checks.bodies.values()))
    behind_its_back(world, "DELETE FROM result")
    world.receiver.take("result:x", body)

    assert "S6" in rules(world)


def test_a_byte_that_was_overwritten_is_found(world: World) -> None:
    world.run(until_s=9)
    world.store._write(next(iter(world.checks.visible)), b"other bytes")

    assert "S9" in rules(world)


def test_an_answer_that_was_acted_upon_twice_is_found(world: World) -> None:
    world.run(until_s=9)
    world.receiver.acts[next(iter(world.receiver.acts))] += 1
    world.run()

    assert "S3" in rules(world)


def test_an_ended_job_that_changes_is_found(world: World) -> None:
    world.run(until_s=9)
    behind_its_back(world, "DROP TRIGGER job_frozen")
    behind_its_back(world, "UPDATE job SET state = 'canceled' WHERE state = 'finished'")
    world.checks.committed(None)

    assert "S1" in rules(world)


def test_a_job_that_nobody_runs_is_found(world: World) -> None:
    for name in ("w1", "w2"):
        world.machines[name].is_wanted = False
        world.crash(name, at_s=2)
    world.run()

    assert "L1" in rules(world)


def test_a_process_that_runs_on_after_a_cancel_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def kill(process: SimProcess) -> Exited:
        return Exited(killed=True, signal=9)

    monkeypatch.setattr(SimProcess, "kill", kill)
    orders = (Order(n=1, cancel_after_s=5),)
    with World(1, Settings(orders=orders, lease_s=10, deed_of=fails(Outcome.STALLED))) as world:
        world.run()

    assert rules(world) == {"L5"}


CLEANED = Settings(lease_s=10, deed_of=lambda n, attempt: Deed(runs_s=5), gc_grace_s=10, is_cleaned=True)


def test_a_file_that_no_result_names_is_found() -> None:
    with World(1, CLEANED) as world:
        world.run(until_s=9)
        key = next(iter(world.checks.visible))
        world.store._write(key.replace("/1-", "/7-"), b"nobody's")
        world.run()

    assert rules(world) == {"L4"}


def test_a_checkpoint_on_its_way_when_its_attempt_is_given_up_is_deleted_in_the_end() -> None:
    """An hour of seeds found it: the attempt was called stopped, its files collected for good, then this came."""
    left = replace(
        CLEANED,
        orders=(Order(n=1, kind="encode"),),
        mode=Mode.FLEET,
        workers=2,
        upload_s=(50, 50),
        deed_of=lambda n, attempt: Deed(runs_s=10, checkpoint_every_s=4),
    )
    with World(1, left) as world:
        for name in ("w1", "w2"):
            world.freeze(name, at="upload:before-complete", for_s=50)
        world.run()

    assert rules(world) == set()
    assert world.checks.counts.losses >= 1


def test_what_a_lost_worker_uploads_when_all_has_ended_is_deleted_in_the_end() -> None:
    with World(1, CLEANED) as world:
        for name in ("w1", "w2"):
            world.freeze(name, at="upload:before-complete", for_s=50)
        world.run()

    assert rules(world) == set()
    assert sum(map(len, world.store.written.values())) >= 2
    assert world.checks.counts.losses >= 1


@pytest.mark.parametrize("ended", [False, True])
def test_another_holder_in_one_commit_is_found_unless_the_first_one_had_ended(world: World, ended: bool) -> None:
    world.run(until_s=2.1)
    [(job_id, token)] = world.checks._rows("SELECT job_id, token FROM job WHERE state = 'running' LIMIT 1")
    end = "outcome = 'lost', ended_at_ms = 1" if ended else "outcome = NULL"
    behind_its_back(
        world,
        f"""UPDATE attempt SET {end} WHERE token = {token};
        UPDATE job SET token = token + 7, attempt = attempt + 1, losses = losses + {ended:d} WHERE job_id = '{job_id}';
        INSERT INTO attempt(job_id, attempt, token, incarnation, nonce, granted_at_ms)
        SELECT job_id, attempt, token, incarnation, 'n', 1 FROM job WHERE job_id = '{job_id}'""",
    )
    world.checks.committed([job_id])

    assert ("S4" in rules(world)) is not ended
