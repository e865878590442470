"""The ledger itself over HTTP, for workers and clients of an orchestrator: one route for all verbs."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec
from starlette.responses import Response

from planrun.client.async_client import SLICE
from planrun.clock import Clock
from planrun.core.errors import Invalid
from planrun.core.fleet import Fleet
from planrun.core.requests import check_request, check_worker
from planrun.ledger.contract import Ledger
from planrun.ledger.wire import (
    BODY_BYTES_MAX,
    BOOT_HEADER,
    GENERATION_HEADER,
    POLL_S_MAX,
    PROTOCOL,
    PROTOCOL_HEADER,
    VERBS,
    Poll,
    Verb,
    arguments_of,
)
from planrun.orchestrator.generations import Generations
from planrun.trip import trip
from planrun.web.asked import NoQuery
from planrun.web.calls import Call, Followers, read_json
from planrun.web.problems import INVALID, NO_FLEET, NO_VERB, OTHER_PROTOCOL, Refused
from planrun.web.reach import Borders, ask_within

DIGITS_MAX = 20
WATCHED_MS = 2 * POLL_S_MAX * 1000  # nobody asked about it for so long: nobody waits for it any more


async def fleet(call: Call, *, query: NoQuery) -> Response:
    """What a worker has to know to join this fleet: its store, its broker, its leases."""
    served = _served(call)
    await _hear(call, served)
    return _reply(served, served.fleet)


async def ask_ledger(call: Call, *, query: NoQuery) -> Response:
    """One verb of the ledger, as `RemoteLedger` asks it. Programs take the other routes."""
    served = _served(call)
    verb = VERBS.get(call.request.path_params["verb"])
    if verb is None:
        raise Refused(NO_VERB, f"this orchestrator knows no verb {call.request.path_params['verb']!r:.80}: upgrade it")
    call.need_any(verb.scopes)
    await _hear(call, served)
    asked = await read_json(call.request, verb.asked, bytes_max=BODY_BYTES_MAX)

    async def ask(within: msgspec.Struct) -> Any:
        if isinstance(within, Poll):
            return await call.while_wanted(served.watches.poll(within, call.followers))
        return await _ask(served.ledger, verb, within)

    answer = await ask_within(call, served.borders, verb.name, asked, ask)
    trip(f"{verb.name}:answering")
    return _reply(served, answer)


async def _ask(ledger: Ledger, verb: Verb, asked: msgspec.Struct) -> Any:
    arguments = arguments_of(asked)
    match verb.name:  # a client has checked its own call; who knows what else comes over a network
        case "submit":
            if len(arguments["requests"]) > SLICE:
                raise Invalid(f"more than {SLICE} jobs in one call: leases are renewed between calls; make several")
            for request in arguments["requests"]:
                check_request(request)
        case "register":
            check_worker(arguments["worker"])
    try:
        return await getattr(ledger, verb.name)(**arguments)
    except OverflowError:
        raise Refused(INVALID, "body: a number does not fit into 64 bits; send a smaller one") from None


def _served(call: Call) -> Served:
    """What is served here to callers of this version.

    Raises:
        Refused: Nothing is.
    """
    if call.served is None:
        raise Refused(NO_FLEET, "this is `planrun up`, which owns no fleet; start `planrun orchestrator` for that")
    told = call.request.headers.get(PROTOCOL_HEADER, str(PROTOCOL))
    if told != str(PROTOCOL):
        older = "the orchestrator" if told.isdigit() and int(told) > PROTOCOL else "whoever asks"
        raise Refused(OTHER_PROTOCOL, f"protocol {told!r:.20} asked, {PROTOCOL} spoken here: upgrade {older} first")
    return call.served


async def _hear(call: Call, served: Served) -> None:
    """Which generation has the caller met? Of whoever may ask, for the store may have to be looked at.

    Raises:
        LedgerUnavailable: A copy of the ledger was recovered elsewhere: that one is to be asked.
    """
    met = call.request.headers.get(GENERATION_HEADER, "")
    if served.generations is not None and met.isascii() and met.isdigit() and len(met) < DIGITS_MAX:
        await served.generations.hear(int(met))


def _reply(served: Served, answer: Any) -> Response:
    headers = {BOOT_HEADER: str(served.clock.boot_ms()), "cache-control": "no-store"}
    return Response(msgspec.json.encode(answer), headers=headers, media_type="application/json")


@dataclass(eq=False)
class Watch:
    """What is known of one subject: a number that is another one after each change, and who waits for that."""

    version: str
    asked_ms: int
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class Watches:
    """`changed` for those who are not there between two polls. One watch of the ledger for each subject."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._watches: dict[str | None, Watch] = {}
        self._name = clock.new_id()[:8]  # versions of an earlier server are strange
        self._numbers = itertools.count(1)

    async def poll(self, poll: Poll, followers: Followers) -> str:
        """Return the version of a subject, once it is not the one that was seen, or at the timeout."""
        watch = self._watch(poll.about, followers)
        watch.asked_ms = self._clock.boot_ms()
        if watch.version == poll.seen:
            with suppress(TimeoutError):
                async with asyncio.timeout(min(poll.timeout_s, POLL_S_MAX)):
                    await watch.changed.wait()
        return watch.version

    def _watch(self, about: str | None, followers: Followers) -> Watch:
        if about not in self._watches:
            self._watches[about] = Watch(self._fresh(), self._clock.boot_ms())
            followers.start(self._follow(about, self._watches[about]))
        return self._watches[about]

    async def _follow(self, about: str | None, watch: Watch) -> None:
        try:
            await self._ledger.changed(timeout_s=0, about=about)
            while self._clock.boot_ms() - watch.asked_ms < WATCHED_MS:
                await self._ledger.changed(timeout_s=POLL_S_MAX, about=about)
                watch.version = self._fresh()
                watch.changed.set()
                watch.changed = asyncio.Event()
        finally:
            del self._watches[about]
            watch.changed.set()

    def _fresh(self) -> str:
        return f"{self._name}-{next(self._numbers)}"


@dataclass(frozen=True, slots=True)
class Served:
    """What an orchestrator serves beside what every server does."""

    ledger: Ledger
    clock: Clock
    fleet: Fleet
    watches: Watches
    borders: Borders
    generations: Generations | None = None  # None: of a ledger of which there are no copies

    @classmethod
    def over(cls, ledger: Ledger, clock: Clock, fleet: Fleet, generations: Generations | None = None) -> Served:
        """Over what an orchestrator has opened."""
        return cls(ledger, clock, fleet, Watches(ledger, clock), Borders(ledger), generations)

    @property
    def headers(self) -> dict[str, str]:
        """What every reply says of the ledger."""
        return {} if self.generations is None else {GENERATION_HEADER: str(self.generations.number)}
