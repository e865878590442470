"""One call: what it asks for, read strictly, and the client that answers it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from planrun.client import AsyncClient, AsyncJobHandle
from planrun.core.access import Bearer, Scope
from planrun.core.errors import UnknownJob
from planrun.web.problems import (
    BAD_JSON,
    FOREIGN_NAMESPACE,
    INVALID,
    NOT_JSON,
    STOPPING,
    TOO_LARGE,
    WRONG_SCOPE,
    Refused,
)

if TYPE_CHECKING:
    from planrun.web.ledger import Served

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)

BODY_BYTES_MAX = 4 * 1024 * 1024


class Followers:
    """Those who wait for something to happen: they end at once when the server stops."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._stopping = False

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Wait for something in a task of its own. It is canceled when the server stops."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self._stopping:
            task.cancel()
        return task

    def stop(self) -> None:
        self._stopping = True
        for task in self._tasks:
            task.cancel()


@dataclass(frozen=True, slots=True)
class Call:
    """What a route works with."""

    client: AsyncClient
    followers: Followers
    request: Request
    served: Served | None = None

    @property
    def bearer(self) -> Bearer:
        """Who asks."""
        bearer: Bearer = self.request.scope["bearer"]
        return bearer

    def need(self, scope: Scope) -> None:
        """Go on only if the caller's token is for such calls.

        Raises:
            Refused: It is not.
        """
        self.need_any((scope,))

    def need_any(self, scopes: Sequence[Scope]) -> None:
        """As `need`, of several scopes of which one is enough."""
        bearer = self.bearer
        if not any(map(bearer.may, scopes)):
            has, scope = ", ".join(sorted(bearer.scopes)), " or ".join(scopes)
            raise Refused(
                WRONG_SCOPE,
                f"this takes a token with the scope {scope}, yours has {has}: planrun token create --scope {scopes[0]}",
            )

    def need_namespace(self, namespace: str) -> None:
        """Go on only if the caller's token is for this namespace; empty: for all there are.

        Raises:
            Refused: It is not.
        """
        bearer = self.bearer
        if bearer.namespaces is None or bearer.sees(namespace):
            return
        what = f"the namespace {namespace!r:.80}" if namespace else "all namespaces"
        own = ", ".join(sorted(bearer.namespaces))
        else_do = "; name one of those (--namespace)" if namespace else ""
        raise Refused(FOREIGN_NAMESPACE, f"this takes a token for {what}, yours is for {own}{else_do}")

    async def job(self, namespace: str | None) -> AsyncJobHandle:
        """The job in the path, by its id or a request id. One of a namespace that is not the caller's is unknown.

        Raises:
            UnknownJob: No such job.
        """
        name, own = self.request.path_params["job"], self.bearer.namespaces
        if own is None:
            return await self.client.job(name, namespace=namespace)
        for one in sorted(own if namespace is None else own & {namespace}):
            try:
                return await self.client.job(name, namespace=one)
            except UnknownJob:
                continue
        where = namespace or " or ".join(sorted(own))
        raise UnknownJob(f"no job or request {name} in namespace {where}; look at the id and at the namespace")

    async def while_wanted(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for something while the caller is there and the server goes on.

        Raises:
            Refused: The server stops.
        """
        task = self.followers.start(work)
        left = asyncio.create_task(self._left())
        left.add_done_callback(lambda _: task.cancel())
        try:
            await asyncio.wait([task])
            if task.cancelled():
                raise stopping()
            return task.result()
        finally:
            left.cancel()

    async def _left(self) -> None:
        while (await self.request.receive())["type"] != "http.disconnect":
            pass


def stopping() -> Refused:
    return Refused(STOPPING, "this server stops; the jobs go on; ask again in a moment")


def read_query(request: Request, kind: type[S]) -> S:
    """The query, with every name known and given once.

    Raises:
        Refused: Says which parameter cannot be right.
    """
    pairs = request.query_params.multi_items()
    told = dict(pairs)
    if len(told) < len(pairs):
        raise Refused(INVALID, "a query parameter is given twice; give each at most once")
    found = _converted(told, kind, "query")
    for name, text in told.items():
        if getattr(found, name) is None:  # `null` is JSON; here it could be the name of something
            raise Refused(INVALID, f"query: {name}={text}: leave it out instead")
    return found


def read_headers(request: Request, kind: type[S]) -> S:
    """Those headers that the route knows.

    Raises:
        Refused: Says which cannot be right.
    """
    names = kind.__struct_encode_fields__
    return _converted({name: request.headers[name] for name in names if name in request.headers}, kind, "header")


async def read_body(request: Request, kind: type[S]) -> S:
    """The body as JSON; none at all stands for an empty object.

    A page of another site can send a form without asking, but not `application/json`.

    Raises:
        Refused: Too large, not declared as JSON, no JSON, or not what the route takes.
    """
    return await read_json(request, kind, bytes_max=BODY_BYTES_MAX)


async def read_json(request: Request, kind: type[S], *, bytes_max: int) -> S:
    """See `read_body`; of at most so many bytes."""
    content = await _read(request, bytes_max)
    declared = request.headers.get("content-type", "")
    if (content or declared) and declared.partition(";")[0].strip().lower() != "application/json":
        raise Refused(NOT_JSON, f"content-type {declared!r:.80}: send the body as application/json")
    try:
        return msgspec.json.decode(content or b"{}", type=kind)
    except msgspec.ValidationError as error:
        raise _invalid("body", error) from None
    except RecursionError:
        raise Refused(INVALID, "body: nested too deeply; pass such data as an input file") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refused(BAD_JSON, f"body: {error}; send one JSON object in UTF-8") from None


async def _read(request: Request, bytes_max: int) -> bytes:
    content = bytearray()
    try:
        async for chunk in request.stream():
            content += chunk
            if len(content) > bytes_max:
                too_large = f"the body has more than {bytes_max} bytes; pass large data as an input file"
                raise Refused(TOO_LARGE, too_large)
    except ClientDisconnect:  # nobody reads the reply; nor is it a mistake of ours, to be logged as one
        raise Refused(BAD_JSON, "the connection ended within the body; send it again, whole") from None
    return bytes(content)


def _converted(told: dict[str, str], kind: type[S], what: str) -> S:
    try:
        return msgspec.convert(told, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _invalid(what, error) from None


def _invalid(what: str, error: msgspec.ValidationError) -> Refused:
    return Refused(INVALID, f"{what}: {error}; /openapi.json says what is taken")
