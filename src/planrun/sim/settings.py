"""What a world is made of, and what is asked of it: plain data, drawn from a seed or written by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from planrun.core.life import Outcome
from planrun.sim.jobs import Deed

SUCCEEDS = Deed()


class Mode(StrEnum):
    """`box`: worker processes share a ledger's file. `fleet`: an orchestrator owns it, and a broker carries words."""

    BOX = "box"
    FLEET = "fleet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One submit of the application.

    Attributes:
        n: Number of the job's work: orders with the same number ask for the same.
        key: See `Submit`.
        routes: How many receivers want the answer.
        cancel_after_s: It is canceled so long after it was handed in; None: it is not.
        name: Tells it from other orders; two of the same name are one call, made twice.
        may_be_refused: Another job may have its key.
    """

    n: int
    at_s: float = 0.0
    name: str = ""
    kind: str = "render"
    version: str = "v1"
    namespace: str = "default"
    needs: tuple[str, ...] = ()
    key: str | None = None
    routes: int = 1
    max_attempts: int = 4
    delay_s: float = 0
    deadline_s: float | None = None
    priority: int = 0
    cancel_after_s: float | None = None
    waits: bool = True
    may_be_refused: bool = False


def _succeeds(n: int, attempt: int) -> Deed:
    return SUCCEEDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Attributes:
    capabilities, versions: What a worker has and can run, by its name; else nothing special, and v1.
    deed_of: What job number n does in an attempt.
    upload_s, start_s, commit_s, trip_s: How long an upload, the start of a job process, a turn at the ledger and a word
        over the network take: the least and the most, seconds; chance picks.
    strict: In a fleet answers stand in the store before anybody hears of them.
    lost, doubled: Which share of all words over the network gets lost, or comes twice, until `honest_s`.
    stall_s: A job that says nothing for so long is ended.
    restart_s: After so long a crashed process is started again.
    gc_grace_s: How long files of lost attempts stay.
    is_cleaned: The history goes on until they have gone.
    are_archived: So much time passes in it that records of ended jobs leave the ledger.
    honest_s: From when on nothing is broken any more, unless a script breaks it.
    end_s: By when all must have come to rest.
    """

    mode: Mode = Mode.BOX
    workers: int = 2
    slots: int = 1
    capabilities: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    versions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    lease_s: float = 30
    orders: tuple[Order, ...] = (Order(n=1),)
    deed_of: Callable[[int, int], Deed] = field(default=_succeeds)
    upload_s: tuple[float, float] = (0.0, 0.0)
    start_s: tuple[float, float] = (0.05, 0.2)
    commit_s: tuple[float, float] = (0.0005, 0.003)
    trip_s: tuple[float, float] = (0.001, 0.02)
    lost: float = 0
    doubled: float = 0
    stall_s: float = 45
    restart_s: float = 2.0
    drain_grace_s: float = 0
    proof_of_death: bool = True
    strict: bool = True
    gc_grace_s: float = 60
    is_cleaned: bool = False
    are_archived: bool = False
    honest_s: float = 0
    end_s: float = 1200


def deeds(table: dict[tuple[int, int], Deed]) -> Callable[[int, int], Deed]:
    """What job n does in attempt m, by (n, m); the others succeed."""
    return lambda n, attempt: table.get((n, attempt), SUCCEEDS)


def fails(*ends: Outcome) -> Callable[[int, int], Deed]:
    """Every job ends its first attempts like this, and then succeeds."""
    return lambda n, attempt: Deed(end=ends[attempt - 1]) if attempt <= len(ends) else SUCCEEDS
