"""Which history of a ledger is the right one, when a backup was restored or two copies run.

A *generation* begins when a ledger is first given a store, and at every recovery: by an object in the store, which only
one of two copies can create. Every token carries it. The *high-water mark* says how far the ledger had counted before
the last answer was said. A ledger that is behind it lacks something that somebody was told.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from planrun.core.messages import Struct

RECOVER = "start it once with --recover"


class History(Struct, kw_only=True):
    """What a ledger knows of itself.

    Attributes:
        uuid: The same in all copies.
        generation: Begins with 1.
        n: The counter inside tokens; only grows within a generation, with every grant and every end.
        owner: Id under which the generation was taken in the store; empty: it has not been taken there.
        strict: Answers are written down in the store before they are said.
        copied_at_ms: When `planrun backup` made this copy; None: it is the ledger itself.
        recovering: A recovery has begun, and has not ended.
        sealed: What it gives out carries a seal. Of a generation that was taken by an older version: not.
        rolled_back: Proof that this ledger is behind what its workers hold, in words; empty: none.
    """

    uuid: str
    generation: int
    n: int
    owner: str = ""
    strict: bool = False
    copied_at_ms: int | None = None
    recovering: bool = False
    sealed: bool = False
    rolled_back: str = ""


class Taken(Struct, kw_only=True):
    """The object that a generation is taken by."""

    owner: str
    at_ms: int


class Mark(Struct, kw_only=True, order=True):
    """A high-water mark."""

    generation: int
    n: int


class Known(Struct, kw_only=True):
    """What the store knows of a ledger."""

    generations: Mapping[int, Taken] = {}
    high: Mark | None = None

    @property
    def newest(self) -> int:
        """The highest generation there is; 0: none."""
        return max([*self.generations, self.high.generation if self.high is not None else 0], default=0)


def why_not(history: History, known: Known) -> str:
    """Why a ledger must not be run as it is: what was found; empty: it may."""
    taken = known.generations.get(history.generation)
    mark = Mark(generation=history.generation, n=history.n)
    if history.rolled_back:
        return history.rolled_back
    if known.newest > history.generation and (history.owner or known.high is not None):
        return f"it is of generation {history.generation}, and generation {known.newest} has taken over since"
    if known.high is not None and known.high > mark:
        return (
            f"it has counted to {history.n}, and was at {known.high.n} when the last answer was said: "
            "this is an older copy, such as a restored backup"
        )
    if history.copied_at_ms is not None and known.newest:
        return "this copy was made by `planrun backup`, and the ledger went on after it"
    if history.owner and taken is None:
        return (
            f"the store does not know its generation {history.generation}: it is another one (look at --store), "
            "or something in it is gone"
        )
    if history.owner and taken is not None and taken.owner != history.owner:
        return f"another copy of it has taken generation {history.generation}"
    return ""


def folder_of(uuid: str) -> str:
    """Where the store keeps what it knows of a ledger."""
    return f"ledger/{uuid}/"


def generation_key(uuid: str, generation: int) -> str:
    """The object that a generation is taken by."""
    return f"{folder_of(uuid)}gen/{generation}"


def mark_key(uuid: str, mark: Mark) -> str:
    """The object that is a high-water mark. Its name says it all."""
    return f"{folder_of(uuid)}high/{mark.generation}-{mark.n}"


def mark_in(key: str) -> Mark | None:
    """The mark that has this key; None: it is another object's."""
    match key.split("/"):
        case ["ledger", _, "high", name]:
            generation, _, n = name.partition("-")
            return Mark(generation=int(generation), n=int(n)) if generation.isdigit() and n.isdigit() else None
        case _:
            return None


def generation_in(key: str) -> int | None:
    """The generation that is taken by the object of this key; None: it is another object's."""
    match key.split("/"):
        case ["ledger", _, "gen", name] if name.isdigit():
            return int(name)
        case _:
            return None


def taken_of(data: bytes) -> Taken | None:
    """Who has taken a generation; None: that says nobody."""
    try:
        return msgspec.json.decode(data, type=Taken)
    except msgspec.MsgspecError:
        return None
