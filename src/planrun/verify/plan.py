"""What a run asks for and does, and when: all of it from one seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

ATTEMPTS_MAX = 20  # of a job: its own process is killed more often here than anywhere else
CALM_S_MAX = 30.0
CALM_SHARE = 0.25
PATIENCE_S_MAX = 2.0
AIM_S_MAX = 4.0
BYTES_MAX = 200_000
HEAVY_BYTES_MAX = 4_000_000  # several chunks of an upload; a tenth of the jobs, for they stay for a day


class Way(StrEnum):
    """How a job is handed in."""

    ONCE = "once"
    REPEATED = "repeated"  # by all clients, under one request id
    KEYED = "keyed"  # by all clients, each with a request of its own, under one key; and again once it has ended


class Blow(StrEnum):
    """What is done to a worker."""

    KILL = "kill"
    JOB = "job"
    FREEZE = "freeze"
    LATE = "late"  # frozen while it stores a result, until another worker has the job
    DEPLOY = "deploy"
    CUT = "cut"


@dataclass(frozen=True, slots=True)
class Ask:
    """One job.

    Attributes:
        at_s: When it is handed in, from the start of the run.
        seconds: How long it runs.
        refuses: It is to fail, once and for good.
        cancel_after_s: It is canceled so long after it was handed in; None: never.
    """

    number: int
    at_s: float
    way: Way
    seconds: float
    bytes: int
    refuses: bool
    cancel_after_s: float | None


@dataclass(frozen=True, slots=True)
class Strike:
    """One fault.

    Attributes:
        lot: Whom it hits: a share of those that can be hit.
        seconds: How long it lasts.
        patience_s: So long somebody is looked for whom it can hit; then the next fault has its turn.
    """

    at_s: float
    blow: Blow
    lot: float
    seconds: float
    patience_s: float


@dataclass(frozen=True, slots=True)
class Plan:
    """Attributes:
    storm_s: How long jobs come and faults happen; then all is healed.
    """

    seed: int
    storm_s: float
    asks: tuple[Ask, ...]
    strikes: tuple[Strike, ...]


def plan(seed: int, *, minutes: float, jobs: int, lease_s: float, ledger_s: float, blows: Sequence[Blow]) -> Plan:
    """Jobs spread over the storm, and one fault every few seconds: each kind of them before any comes again.

    Args:
        lease_s: How long a worker that falls silent trusts itself.
        ledger_s: How long the ledger waits for it.
    """
    chance = random.Random(seed)
    whole_s = minutes * 60
    storm_s = whole_s - min(CALM_S_MAX, whole_s * CALM_SHARE)
    asks = [_ask(chance, number, storm_s * number / jobs, lease_s) for number in range(jobs)]
    strikes: list[Strike] = []
    pause_s = min(max(storm_s / 9, 0.5), 3.5)
    at_s, bag = pause_s, list[Blow]()
    while at_s < storm_s and blows:
        bag = bag or chance.sample(list(blows), len(blows))
        lasts_s = ledger_s * chance.uniform(1.2, 1.7)
        blow = bag.pop()
        patience_s = min(pause_s, AIM_S_MAX if blow is Blow.LATE else PATIENCE_S_MAX)
        strikes.append(Strike(at_s, blow, chance.random(), lasts_s, patience_s))
        at_s += pause_s * chance.uniform(0.7, 1.3)
    return Plan(seed, storm_s, tuple(asks), tuple(strikes))


def _ask(chance: random.Random, number: int, at_s: float, lease_s: float) -> Ask:
    is_long = chance.random() < 1 / 6
    is_heavy = chance.random() < 1 / 10
    refuses = chance.random() < 1 / 15  # then its key is free again at once
    return Ask(
        number=number,
        at_s=at_s,
        way=chance.choice([way for way in Way if way is not Way.KEYED or not refuses]),
        seconds=lease_s * chance.uniform(1.3, 2) if is_long else chance.uniform(0, 1),
        bytes=chance.randrange(BYTES_MAX, HEAVY_BYTES_MAX) if is_heavy else chance.randrange(1_000, BYTES_MAX),
        refuses=refuses,
        cancel_after_s=chance.uniform(0, 1.5) if chance.random() < 1 / 12 else None,
    )
