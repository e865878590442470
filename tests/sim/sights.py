"""What the scenarios of this folder look at, and parties that come later."""

from __future__ import annotations

import hashlib

from planrun.sim.net import Fate
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


def cut_off(world: World, name: str, *, from_s: float, until_s: float) -> None:
    """A party of a fleet reaches neither the orchestrator nor the broker."""
    for whom in ("orchestrator", "broker"):
        world.cut(name, whom, from_s=from_s, until_s=until_s)


def away(world: World, name: str, *, from_s: float, until_s: float) -> None:
    """A party dies, and is started again then."""
    leave(world, name, from_s)

    def come() -> None:
        world.machines[name].is_wanted = True
        world.machines[name].start()

    world.at(until_s, come)


def freeze_at_word(world: World, who: str, what: str, *, after_s: float, for_s: float) -> None:
    """A party stands still right after it has sent such a word: the answer finds it when it goes on."""
    fate_of = world.net.fate_of
    is_done = False

    def fate(asker: str, whom: str, word: str) -> Fate:
        nonlocal is_done
        if (asker, word) == (who, what) and world.loop.now_s >= after_s and not is_done:
            is_done = True
            world.freeze(who, at_s=world.loop.now_s, for_s=for_s)
        return fate_of(asker, whom, word)

    world.net.fate_of = fate


def written_s(world: World, key: str) -> float:
    """When an object was written first, true time."""
    assert world.trace is not None
    return min(line.at_s for line in world.trace.lines if line.who == "store" and line.what == f"has {key}")


def words_of(world: World) -> list[tuple[str, str]]:
    """Every word over the network from now on, as it is sent: who says what."""
    fate_of = world.net.fate_of
    words: list[tuple[str, str]] = []

    def fate(who: str, whom: str, what: str) -> Fate:
        words.append((who, what))
        return fate_of(who, whom, what)

    world.net.fate_of = fate
    return words
