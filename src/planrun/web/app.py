"""The application: every route behind the door, and every error as a problem."""

from __future__ import annotations

import functools
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route as PathRoute
from starlette.routing import compile_path
from starlette.types import ASGIApp, Receive, Scope, Send

from planrun.client import AsyncClient
from planrun.core.errors import PlanrunError
from planrun.web.asked import NoQuery
from planrun.web.calls import Call, Followers, read_body, read_headers, read_query
from planrun.web.door import ALWAYS, Door
from planrun.web.guard import Guard
from planrun.web.lab import lab
from planrun.web.lab_runs import Runs
from planrun.web.ledger import Served, ask_ledger
from planrun.web.openapi import document
from planrun.web.page import POLICY, page_of
from planrun.web.problems import BUG, NO_ROUTE, STORAGE, WRONG_METHOD, Refused, problem_response
from planrun.web.routes import ROUTES, Route

log = logging.getLogger(__name__)

Endpoint = Callable[[Request], Awaitable[Response]]
READERS: dict[str, Callable[[Request, type[Any]], Any]] = {"query": read_query, "headers": read_headers}


async def openapi(call: Call, *, query: NoQuery) -> Response:
    """This API, for programs."""
    return _description()


async def page(call: Call, *, query: NoQuery) -> Response:
    """What is here, for people."""
    return HTMLResponse(page_of(EVERY_ROUTE), headers=POLICY)


EVERY_ROUTE = (
    *ROUTES,
    Route("GET", "/openapi.json", openapi, {200: "application/json"}, scope=None),
    Route("GET", "/", page, {200: "text/html"}, scope=None),
    Route("GET", "/lab", lab, {200: "text/html"}, scope=None),
)


@functools.cache
def _description() -> Response:
    """Nobody needs a token for it, and it never changes: it is written once."""
    return JSONResponse(document(EVERY_ROUTE))


def build_app(
    client: AsyncClient,
    *,
    guard: Guard | None = None,
    followers: Followers | None = None,
    served: Served | None = None,
) -> Starlette:
    """The API over an open client.

    Args:
        guard: Knows the callers; None: nobody needs a token.
        followers: Whoever stops the server stops these first.
        served: The ledger itself, for a fleet; None: it is not served.
    """
    waiting = followers or Followers()
    headers = {} if served is None else served.headers
    client.look_aside()
    (verbs,) = (route for route in EVERY_ROUTE if route.function is ask_ledger)
    app = Starlette(
        routes=[
            PathRoute(route.path, _endpoint(route, client, waiting, served), methods=[route.method])
            for route in EVERY_ROUTE
        ],
        middleware=[
            Middleware(
                Door,
                guard=guard or Guard(),
                open_paths=[route.path for route in EVERY_ROUTE if route.scope is None],
                headers=headers,
            ),
            Middleware(Straight, path=verbs.path, endpoint=_endpoint(verbs, client, waiting, served)),
        ],
        exception_handlers={
            PlanrunError: _refuse,
            Refused: _refuse,
            HTTPException: _refuse_path,
            OSError: _refuse_disk,
            Exception: _admitting({**ALWAYS, **headers}),
        },
    )
    app.state.lab_runs = Runs(waiting)
    return app


class Straight:
    """The way of the ledger's verbs, which a fleet asks for all the time: past the table, to the same endpoint.

    Starlette looks at one route after the other, and wraps each call three times. Whatever is not plainly such a call
    takes the table's way.
    """

    def __init__(self, app: ASGIApp, *, path: str, endpoint: Endpoint) -> None:
        self._app = app
        self._endpoint = endpoint
        self._before, _, self._name = path.rstrip("}").partition("{")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        before, _, last = scope["path"].rpartition("/")
        if scope["method"] != "POST" or f"{before}/" != self._before or scope["root_path"] or not last:
            await self._app(scope, receive, send)
            return
        scope["path_params"] = {self._name: last}
        request = Request(scope, receive)
        try:
            response = await self._endpoint(request)
        except (Refused, PlanrunError) as error:
            response = await _refuse(request, error)
        except OSError as error:
            response = await _refuse_disk(request, error)
        await response(scope, receive, send)


def _endpoint(route: Route, client: AsyncClient, followers: Followers, served: Served | None) -> Endpoint:
    takes = route.takes

    async def endpoint(request: Request) -> Response:
        call = Call(client, followers, request, served)
        if route.scope is not None and not route.by_verb:
            call.need(route.scope)
        told = {what: READERS[what](request, kind) for what, kind in takes.items() if what in READERS}
        if "body" in takes:
            told["body"] = await read_body(request, takes["body"])
        return await route.function(call, **told)

    return endpoint


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, PlanrunError | Refused)
    return problem_response(error)


async def _refuse_path(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.url.path
    if error.status_code != WRONG_METHOD.status:
        return problem_response(Refused(NO_ROUTE, f"{path:.200}: there is no such path; / lists what is here"))
    known = methods_of(path)
    detail = f"{request.method} {path:.200}: use {' or '.join(known)}"
    return problem_response(Refused(WRONG_METHOD, detail, {"allow": ", ".join(known)}))


def methods_of(path: str) -> list[str]:
    """What a path knows. It has a route for each method, and a HEAD with every GET."""
    methods = {route.method for route in EVERY_ROUTE if compile_path(route.path)[0].match(path)}
    return sorted(methods | ({"HEAD"} if "GET" in methods else set()))


async def _refuse_disk(request: Request, error: Exception) -> Response:
    assert isinstance(error, OSError)
    return problem_response(Refused(STORAGE, f"a file cannot be read: {error.strerror}; look at the server's disk"))


def _admitting(headers: Mapping[str, str]) -> Callable[[Request, Exception], Awaitable[Response]]:
    """What nobody has caught is answered outside of the door, so that this reply needs its headers, too."""

    async def admit(request: Request, error: Exception) -> Response:
        said = "this should not happen: the server's log says more; please report it"
        return problem_response(Refused(BUG, said, headers))

    return admit
