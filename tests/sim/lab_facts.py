"""Facts of a run, written by hand: to try what is drawn and said of them, without a run."""

from __future__ import annotations

from planrun.sim.lab.history import Fact, Lane, What

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
