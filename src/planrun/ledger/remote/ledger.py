"""A `Ledger` whose file is an orchestrator's: the same verbs, asked over HTTP.

A verb whose answer got lost is asked again where that changes nothing, also while the orchestrator starts anew; an
address at which nobody has answered yet may be wrong, and is not.
Heartbeats are not: whoever keeps a lease asks again by itself, and soon.

Boottimes of the ledger's machine come out as boottimes of this one, so that everybody compares like with like.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import ssl
import weakref
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, NoReturn, cast

import httpx2
import msgspec

from planrun.clock import Clock
from planrun.core.access import Caller
from planrun.core.errors import Invalid, LedgerUnavailable, LedgerUnusable, PlanrunError
from planrun.core.fleet import Fleet
from planrun.core.messages import JobRow
from planrun.core.printed import LogPiece
from planrun.core.problems import Problem, error_of
from planrun.core.why import Outlook
from planrun.ledger.contract import Ledger
from planrun.ledger.wire import (
    BOOT_HEADER,
    GENERATION_HEADER,
    POLL_S_MAX,
    PROTOCOL,
    PROTOCOL_HEADER,
    REPLY_S,
    VERBS,
    Poll,
    Verb,
    Way,
)
from planrun.tls import trouble

CONNECT_S = 5.0
IDLE_S = 30.0  # a connection is kept so long; the server keeps it longer
PAUSES_S = (0.0, 0.1, 0.2, 0.5, 1.0)  # the first one: an idle connection was closed just when it was used
AFTER_TROUBLE_S = 1.0
CUT_S = 6  # what the other kernel has not even confirmed for so long is cut off; a slow answer is awaited for longer
_TCP = {"TCP_KEEPIDLE": CUT_S, "TCP_KEEPINTVL": 2, "TCP_USER_TIMEOUT": CUT_S * 1000}  # not every system has them
SOCKET_OPTIONS = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *((socket.IPPROTO_TCP, getattr(socket, name), value) for name, value in _TCP.items() if hasattr(socket, name)),
]
DETAIL_CHARS_MAX = 200


class RemoteLedger:
    """One process's view of an orchestrator's ledger; used from one event loop. Its verbs are those of `VERBS`.

    Raises (every verb):
        LedgerUnavailable: No answer.
        LedgerUnusable: This orchestrator does not serve this caller: token, version, or it is none; says which.
    """

    def __init__(
        self,
        url: str,
        clock: Clock,
        *,
        token: str = "",
        tls: ssl.SSLContext | None = None,
        wait_s: float,
        wire: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        """
        Args:
            url: `http://host:8470` or `https://…`.
            token: Sent as a bearer token; empty: none.
            tls: Whom to trust at a `https:` address.
            wait_s: How long what may be asked again is asked again.
            wire: What carries a request; None: the network.
        """
        self._url = url
        self._wire = wire
        self._tls = tls
        self._clock = clock
        self._wait_ms = round(wait_s * 1000)
        headers = {PROTOCOL_HEADER: str(PROTOCOL), "content-type": "application/json"}
        if token:
            headers["authorization"] = f"Bearer {token}"
        self._ways = {way: self._open(headers) for way in Way}
        self._seen: weakref.WeakKeyDictionary[asyncio.Task[Any], dict[str | None, str]] = weakref.WeakKeyDictionary()
        self._met = False
        self._owed_ms: int | None = None  # since when there is no answer to a question that wants one at once
        self._generation = 0  # the highest that was met

    def _open(self, headers: dict[str, str]) -> httpx2.AsyncClient:
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=IDLE_S)
        verify = self._tls or self._url.startswith("https:")
        wire = self._wire or httpx2.AsyncHTTPTransport(verify=verify, limits=limits, socket_options=SOCKET_OPTIONS)
        # Mounted, and not the transport of all: so a proxy that the environment names still goes first.
        return httpx2.AsyncClient(
            base_url=self._url, headers=headers, verify=verify, transport=self._wire, mounts={"all://": wire}
        )

    @property
    def generation(self) -> int:
        """The highest generation of this ledger that was met; 0: none yet."""
        return self._generation

    @property
    def is_met(self) -> bool:
        """It has answered before."""
        return self._met

    @property
    def silent_ms(self) -> int:
        """How long an answer is owed, over all questions since the last one; 0: none is."""
        return 0 if self._owed_ms is None else self._clock.boot_ms() - self._owed_ms

    async def fleet(self) -> Fleet:
        """What a machine has to know to join.

        Raises:
            LedgerUnavailable, LedgerUnusable: As every verb.
        """
        fleet: Fleet = await self._ask(_Question("GET", "/v1/fleet", b"", Fleet, Way.PLAIN, True, REPLY_S))
        return fleet

    async def me(self) -> Caller:
        """What the orchestrator says of this caller, and of itself. Raises as every verb."""
        caller: Caller = await self._ask(_Question("GET", "/v1/me", b"", Caller, Way.PLAIN, True, REPLY_S))
        return caller

    async def log_piece(self, row: JobRow, *, attempt: int | None, after: int) -> LogPiece:
        """What an attempt of a job has printed behind that many bytes; None: the newest that printed something."""
        which = "" if attempt is None else f"&attempt={attempt}"
        path = f"/v1/jobs/{row.job_id}/log?after={after}{which}"
        piece: LogPiece = await self._ask(_Question("GET", path, b"", LogPiece, Way.PLAIN, True, REPLY_S))
        return piece

    async def changed(self, *, timeout_s: float, about: str | None = None) -> None:
        """See `Ledger.changed`. Where there is no telling, something may have changed: it returns, after a moment."""
        task = asyncio.current_task()
        assert task is not None
        seen = self._seen.setdefault(task, {})
        timeout_s = min(timeout_s, POLL_S_MAX)
        poll = Poll(timeout_s=timeout_s, about=about, seen=seen.get(about, ""))
        try:
            seen[about] = await self._call(VERBS["changed"], poll, reply_s=timeout_s + REPLY_S)
        except PlanrunError:
            await self._clock.sleep(min(timeout_s, AFTER_TROUBLE_S))

    async def close(self) -> None:
        for client in self._ways.values():
            await client.aclose()

    async def _call(self, verb: Verb, asked: msgspec.Struct, *, reply_s: float = REPLY_S) -> Any:
        try:
            content = msgspec.json.encode(asked)
        except (UnicodeEncodeError, TypeError, OverflowError, RecursionError) as error:
            raise Invalid(f"{verb.name}: this cannot be sent: {error}") from None
        return await self._ask(
            _Question("POST", f"/v1/ledger/{verb.name}", content, verb.reply, verb.way, verb.repeatable, reply_s)
        )

    async def _ask(self, question: _Question) -> Any:
        began_ms = self._clock.boot_ms()
        if self._owed_ms is None and question.way is Way.PLAIN:
            self._owed_ms = began_ms
        doubt: _NoAnswer | None = None  # a try that may have done it
        for tries in itertools.count():
            try:
                return self._read(await self._send(question), question.kind)
            except _NoAnswer as silence:
                doubt = silence if doubt is None and not silence.is_unsent else doubt
                pause_s = PAUSES_S[min(tries, len(PAUSES_S) - 1)]
                is_patient = self._met and question.repeatable and question.way is Way.PLAIN
                until_ms = began_ms + (self._wait_ms if is_patient else 0)
                is_over = tries > 0 and self._clock.boot_ms() + pause_s * 1000 >= until_ms
                if is_over or not (silence.is_unsent or (question.repeatable and silence.is_quick)):
                    raise LedgerUnavailable(str(doubt or silence)) from None
            await self._clock.sleep(pause_s)
        raise AssertionError("unreachable")

    async def _send(self, question: _Question) -> httpx2.Response:
        timeout = httpx2.Timeout(question.reply_s, connect=CONNECT_S, pool=None)
        try:
            return await self._ways[question.way].request(
                question.method,
                question.path,
                content=question.content,
                headers={GENERATION_HEADER: str(self._generation)},
                timeout=timeout,
            )
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            misfit = trouble(error)  # no connection came about, and asking again at once would change nothing
            is_unsent = misfit is None and isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
            said = misfit or str(error) or f"no reply within {question.reply_s:g} s"
            # It hangs up on what is no TLS: seen here as an end, or, if it has not read all of it, as a reset.
            hung_up = isinstance(error, httpx2.RemoteProtocolError | httpx2.ReadError | httpx2.WriteError)
            if hung_up and self._url.startswith("http:") and not self._met:
                said += "; does it speak TLS there? Then write https://"
            done = "nothing was asked" if is_unsent or misfit else "what was asked may or may not be done"
            raise _NoAnswer(
                f"{self._url} gives no answer ({said:.{DETAIL_CHARS_MAX}}): {done}; look at the orchestrator there, "
                "then ask again: that is safe",
                is_unsent=is_unsent,
                is_quick=misfit is None and not isinstance(error, httpx2.TimeoutException),
            ) from None

    def _read(self, reply: httpx2.Response, kind: Any) -> Any:
        """
        Raises:
            PlanrunError: What the orchestrator said instead, as the ledger there would have raised it.
        """
        if reply.headers.get(PROTOCOL_HEADER) is None:
            self._refuse_stranger(reply)
        self._refuse_replaced(reply)
        try:
            if not reply.is_success:
                error = error_of(msgspec.json.decode(reply.content, type=Problem))
                if type(error) is LedgerUnavailable:
                    raise _NoAnswer(str(error), is_unsent=False, is_quick=True)
                raise error
            answer = msgspec.json.decode(reply.content, type=kind)
            told_ms = reply.headers.get(BOOT_HEADER)
            return answer if told_ms is None else shifted(answer, self._clock.boot_ms() - int(told_ms))
        except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
            if isinstance(error, PlanrunError):
                raise
            raise LedgerUnavailable(
                f"{self._url} has sent what is no reply to this ({error!s:.{DETAIL_CHARS_MAX}}): "
                "is a proxy in between, or the orchestrator older? Upgrade it first"
            ) from None
        finally:
            self._met, self._owed_ms = True, None

    def _refuse_replaced(self, reply: httpx2.Response) -> None:
        """An orchestrator whose ledger was recovered elsewhere: what it says is not believed."""
        said = reply.headers.get(GENERATION_HEADER, "")
        generation = int(said) if said.isascii() and said.isdigit() else self._generation
        if generation < self._generation:
            raise LedgerUnavailable(
                f"{self._url} is of generation {generation}, and generation {self._generation} has taken over: what it "
                "says is not believed; end that orchestrator"
            )
        self._generation = generation

    def _refuse_stranger(self, reply: httpx2.Response) -> NoReturn:
        """No orchestrator has written this: once we have met one here, a proxy speaks for it."""
        text = f"{self._url} answers {reply.status_code}, but is no orchestrator"
        if self._met or reply.status_code >= 500:
            raise _NoAnswer(f"{text} now; ask again: that is safe", is_unsent=False, is_quick=True)
        raise LedgerUnusable(f"{text} of planrun; look at the address: http(s)://HOST:PORT of `planrun orchestrator`")


@dataclass(frozen=True, slots=True)
class _Question:
    method: str
    path: str
    content: bytes
    kind: Any
    way: Way
    repeatable: bool
    reply_s: float


class _NoAnswer(Exception):
    """Attributes:
    is_unsent: Certainly nothing was done.
    is_quick: Said at once, so that there is time to ask again.
    """

    def __init__(self, message: str, *, is_unsent: bool, is_quick: bool) -> None:
        super().__init__(message)
        self.is_unsent = is_unsent
        self.is_quick = is_quick


def _method(verb: Verb) -> Callable[..., Awaitable[Any]]:
    async def ask(self: RemoteLedger, *arguments: Any, **named: Any) -> Any:
        return await self._call(verb, verb.asking(*arguments, **named))

    return ask


def _duty(name: str) -> Callable[..., Awaitable[Any]]:
    async def refuse(self: RemoteLedger, *arguments: Any, **named: Any) -> NoReturn:
        raise Invalid(f"{name}: only the orchestrator itself does that; do it on its box, at the ledger's file")

    return refuse


for _name in vars(Ledger):
    if not _name.startswith("_") and _name not in vars(RemoteLedger):
        setattr(RemoteLedger, _name, _method(VERBS[_name]) if _name in VERBS else _duty(_name))


def open_remote(
    url: str,
    clock: Clock,
    *,
    token: str,
    tls: ssl.SSLContext | None,
    wait_s: float,
    wire: httpx2.AsyncBaseTransport | None = None,
) -> Ledger:
    """An orchestrator's ledger. Nothing is asked yet."""
    return cast("Ledger", RemoteLedger(url, clock, token=token, tls=tls, wait_s=wait_s, wire=wire))


def shifted(answer: Any, ahead_ms: int) -> Any:
    """Boottimes in an answer, as the reader's machine counts them. None and 0 mean no time.

    Args:
        ahead_ms: How far the reader's boottime is ahead of the ledger's.
    """
    match answer:
        case JobRow():
            until_ms, before_ms = answer.lease_until_ms, answer.not_before_ms
            return msgspec.structs.replace(
                answer,
                lease_until_ms=None if until_ms is None else until_ms + ahead_ms,
                not_before_ms=before_ms + ahead_ms if before_ms else 0,
            )
        case Outlook():
            return msgspec.structs.replace(answer, job=shifted(answer.job, ahead_ms))
        case list() | tuple():
            return type(answer)(shifted(each, ahead_ms) for each in answer)
    return answer
