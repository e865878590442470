"""What a run has of an installation: ways to its ledger, a place for messages, and what it cannot try."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planrun.core.fleet import Fleet
from planrun.storage.contract import Store
from planrun.verify.crew import LEASE_S, SIZE, Post
from planrun.verify.plan import Blow
from planrun.verify.receivers import FolderReceiver, Receiver


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Attributes:
    url: Of the ledger.
    store: Where its results go.
    store_url: The same, as a worker is told; empty: as every worker finds it.
    fleet: What the orchestrator tells workers; None: the ledger is a file.
    namespace: To be used by this run alone.
    environment: Of this process; its workers get it.
    keep: Leave the folder of the run behind.
    """

    url: str
    store: Store
    store_url: str
    fleet: Fleet | None
    namespace: str
    minutes: float
    jobs: int
    seed: int
    environment: Mapping[str, str]
    keep: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Attributes:
    posts: Where its workers stand.
    options: Of each worker.
    ledger_s: How long the ledger waits for a worker that fell silent.
    receiver: Where messages arrive; None: there can be none.
    not_tried: What cannot be done here, and why.
    """

    posts: Sequence[Post]
    options: Mapping[str, Any]
    ledger_s: float
    receiver: Receiver | None
    not_tried: tuple[str, ...]

    @property
    def blows(self) -> list[Blow]:
        """What can be done to the workers here."""
        return [blow for blow in Blow if blow is not Blow.CUT or any(post.lines for post in self.posts)]


def stage_on_one_box(asked: Asked, folder: Path, *, is_alone: bool) -> Stage:
    """
    Args:
        is_alone: Nobody has jobs in this ledger. Only then the run's workers do all that workers of one box do for each
            other: they would announce the answers of others with an environment that is not theirs.
    """
    not_tried = ["cuts: there is no network between a worker and a ledger that is a file"]
    if not is_alone:
        not_tried.append("messages: this ledger has jobs of others, and a run must not announce their answers")
    return Stage(
        posts=[Post(asked.url) for _ in range(SIZE)],
        options={"namespace": asked.namespace, "store": asked.store_url, "only_sweeps": not is_alone},
        ledger_s=LEASE_S,
        receiver=FolderReceiver(folder / "messages") if is_alone else None,
        not_tried=tuple(not_tried),
    )
