"""What the scenarios of this folder look at, and parties that come later."""

from __future__ import annotations

import hashlib

from planrun.sim.world import World


def join_late(world: World, name: str, at_s: float) -> None:
    """A party is not there until then. To be said before anything has run."""
    machine = world.machines[name]
    actor, machine.actor, machine.is_wanted = machine.actor, None, False
    assert actor is not None
    world.loop.crash(actor)

    def join() -> None:
        machine.is_wanted = True
        machine.start()

    world.at(at_s, join)


def leave(world: World, name: str, at_s: float) -> None:
    """A party dies then, and nobody starts it again."""

    def go() -> None:
        world.machines[name].is_wanted = False
        world.machines[name].crash()

    world.at(at_s, go)


def thaw(world: World, name: str) -> None:
    """A frozen party goes on now."""
    actor = world.machines[name].actor
    assert actor is not None
    assert actor.is_frozen
    actor.is_frozen = False
    world.say(name, "goes on")


def times(world: World, who: str, what: str, job: str = "") -> list[float]:
    """When that was said in the trace: true seconds."""
    assert world.trace is not None
    return [
        line.at_s
        for line in world.trace.lines
        if (line.who, job or line.job) == (who, line.job) and line.what.startswith(what)
    ]


def stored(world: World, name: str, attempt: int) -> list[str]:
    """Keys of results that an attempt of an order's job has ever written."""
    [job_id] = [job_id for job_id, order in world.names.items() if order == name]
    return sorted(key for key in world.store.written if f"/{job_id}/{attempt}-" in key and "film" in key)


def digest_at(world: World, key: str) -> str:
    """Of what lies there now."""
    return hashlib.sha256(world.store.objects[key]).hexdigest()
