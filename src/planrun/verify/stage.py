"""What a run has of an installation: ways to its ledger, a place for messages, and what it cannot try."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit, urlunsplit

from planrun.clock import Clock
from planrun.config import BROKER_VARIABLE, CACHE_VARIABLE
from planrun.core.errors import TransportUnavailable
from planrun.core.fleet import Fleet
from planrun.core.lease import fleet_lease_ms
from planrun.storage.contract import Store
from planrun.verify.crew import LEASE_S, SIZE, Post
from planrun.verify.line import Line
from planrun.verify.plan import Blow
from planrun.verify.receivers import FolderReceiver, QueueReceiver, Receiver
from planrun.wiring import turn_is_held
from planrun.wiring.probing import open_listener

TLS = "cuts: a line of this run's own cannot stand in for {}, whose certificate is for another name"
PORTS = {"http": 80, "amqp": 5672}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Attributes:
    url: Of the ledger.
    store: Where its results go.
    store_url: The same, as a worker is told; empty: as every worker finds it.
    broker: The fleet's, under a name or with an account of this caller's; empty: as its workers are told.
    fleet: What the orchestrator tells workers; None: the ledger is a file.
    may_operate: It may ask the ledger which of its rules are broken.
    namespace: To be used by this run alone.
    environment: Of this process; its workers get it.
    keep: Leave the folder of the run behind.
    """

    url: str
    store: Store
    store_url: str
    broker: str
    fleet: Fleet | None
    may_operate: bool
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
    holds_others_up: As in `Crew`.
    """

    posts: Sequence[Post]
    options: Mapping[str, Any]
    ledger_s: float
    receiver: Receiver | None
    not_tried: tuple[str, ...]
    holds_others_up: Callable[[], bool] = lambda: False

    @property
    def blows(self) -> list[Blow]:
        """What can be done to the workers here."""
        return [blow for blow in Blow if blow is not Blow.CUT or any(post.lines for post in self.posts)]


def stage_on_one_box(asked: Asked, folder: Path, *, is_alone: bool) -> Stage:
    """
    Args:
        is_alone: Nobody has jobs or workers in this ledger. Only then the run's workers do all that workers of one box
            do for each other: they would announce the answers of others with an environment that is not theirs.
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
        holds_others_up=(lambda: False) if is_alone else partial(turn_is_held, asked.url),
    )


async def stage_in_a_fleet(
    asked: Asked, fleet: Fleet, folder: Path, name: str, clock: Clock, stack: AsyncExitStack
) -> Stage:
    """The last of its workers reaches orchestrator and broker through lines that can be cut, unless they speak TLS.

    Args:
        name: Of the run, and of its queue.
        stack: Closes the lines.
    """
    not_tried: list[str] = []
    broker = asked.broker or fleet.broker
    if broker:
        receiver = await _queue(broker, name, clock, not_tried)
    else:
        receiver = None
        not_tried.append("broker, messages: this fleet has no broker")
    here = {CACHE_VARIABLE: str(folder / "cache"), **({BROKER_VARIABLE: broker} if broker else {})}
    posts = [Post(asked.url, here) for _ in range(SIZE)]
    ways = [urlsplit(url) for url in (asked.url, broker) if url]
    secured = [way.scheme for way in ways if way.scheme not in PORTS]
    if secured:
        not_tried.append(TLS.format(" and ".join(f"{scheme}://" for scheme in secured)))
    else:
        lines = [Line(way.hostname or "", way.port or PORTS[way.scheme]) for way in ways]
        moved = [_at(way, await stack.enter_async_context(line)) for way, line in zip(ways, lines, strict=True)]
        posts[-1] = Post(moved[0], {**here, **({BROKER_VARIABLE: moved[1]} if broker else {})}, lines)
    return Stage(
        posts=posts,
        options={"namespace": asked.namespace, "store": asked.store_url},
        ledger_s=fleet_lease_ms(round(LEASE_S * 1000)) / 1000,
        receiver=receiver,
        not_tried=tuple(not_tried),
    )


async def _queue(broker: str, name: str, clock: Clock, not_tried: list[str]) -> Receiver | None:
    listener = open_listener(broker, name, clock)
    try:
        await listener.listen()
    except TransportUnavailable as error:
        await listener.close()
        not_tried.append(f"messages: {error}; give the broker's address with an account that may, --broker amqp://…")
        return None
    return QueueReceiver(listener, name)


def _at(way: SplitResult, port: int) -> str:
    """The same address, at a port of this machine."""
    account, at, _ = way.netloc.rpartition("@")
    return urlunsplit(way._replace(netloc=f"{account}{at}127.0.0.1:{port}"))
