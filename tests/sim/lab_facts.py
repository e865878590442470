"""Facts of a run, written by hand, to try what is drawn and said of them without a run; and settings by chance."""

from __future__ import annotations

import random

from planrun.sim.lab.history import Fact, Lane, What
from planrun.sim.lab.settings import Fault, Moment, Settings

A, B, LEDGER, STORE = Lane


def fact(at_s: float, lane: Lane, what: What, token: int | None = None, **more: object) -> Fact:
    return Fact(at_ms=round(at_s * 1000), lane=lane, what=what, token=token, **more)  # type: ignore[arg-type]


def stalled(*, fencing: bool, attempt_keys: bool = False) -> list[Fact]:
    """A freezes in its upload from 2 s to 14 s; B takes over at 10 s, and stores at 11 s."""
    late = What.ASIDE if attempt_keys else What.REFUSE if fencing else What.OVERWRITE
    return [
        fact(0, LEDGER, What.SUBMIT),
        fact(0, A, What.GRANT, 33),
        fact(1.5, A, What.HELD, 33),
        fact(1.5, A, What.UPLOAD, 33),
        fact(2, A, What.FREEZE, 33),
        fact(10, LEDGER, What.EXPIRE, 33, by=A),
        fact(10, B, What.GRANT, 34),
        fact(10.5, B, What.HELD, 34),
        fact(10.5, B, What.UPLOAD, 34),
        fact(11, STORE, What.STORE, 34, by=B),
        fact(11, LEDGER, What.WON, 34, by=B),
        fact(11, LEDGER, What.ANNOUNCE, 34),
        fact(14, A, What.THAW, 33),
        fact(14, STORE, late, 33, by=A, than=34),
        fact(14, LEDGER, What.LOST, 33, by=A),
    ]


def outrun(*, attempt_keys: bool = False) -> list[Fact]:
    """As `stalled`, but B stores at 16.5 s: A wakes up at 14 s, and is the first to store."""
    fast = (What.HELD, What.UPLOAD, What.STORE, What.WON, What.ANNOUNCE)
    began = [each for each in stalled(fencing=False) if each.what not in fast or each.token == 33]
    late = What.ASIDE if attempt_keys else What.STORE
    return [
        *began[:-2],
        fact(14, STORE, late, 33, by=A),
        fact(14, LEDGER, What.LOST, 33, by=A),
        fact(16, B, What.UPLOAD, 34),
        fact(16.5, STORE, What.STORE if attempt_keys else What.REPLACE, 34, by=B, than=33),
        fact(16.5, LEDGER, What.WON, 34, by=B),
        fact(16.5, LEDGER, What.ANNOUNCE, 34),
    ]


def by_chance(seed: int) -> Settings:
    """Settings in which something is likely to go wrong: leases as short as the jobs, and trouble while A is at it."""
    chance = random.Random(seed)

    def some(least: float, most: float) -> float:
        return round(chance.uniform(least, most), 1)

    job_a_s, upload_s = some(0.1, 8), some(0.1, 5)
    return Settings(
        seed=seed,
        fault=chance.choice([*Fault]),
        moment=chance.choice([*Moment]),
        at_s=some(0, job_a_s + upload_s),
        for_s=some(0.1, 20),
        lease_s=some(1, 8),
        renew_every_s=some(0.1, 5),
        job_a_s=job_a_s,
        job_b_s=some(0.1, 12),
        upload_s=upload_s,
        fencing=chance.random() < 0.5,
        attempt_keys=chance.random() < 0.4,
    )
