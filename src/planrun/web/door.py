"""Who may come in: the right host, no page of another site, and whoever has a token where one is asked for.

What the token is good for, each route says (`planrun.web.calls`).

An API on 127.0.0.1 can be reached by every page that a browser on this box shows. Such a page can send simple
requests, but must name where it comes from (`Origin`, `Sec-Fetch-Site`); and it can point a name of its own at
127.0.0.1 and read the answers, but must then ask for that name (`Host`). Neither is let in. There is no CORS.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from planrun.core.access import ANYBODY
from planrun.core.errors import PlanrunError
from planrun.ledger.wire import PROTOCOL, PROTOCOL_HEADER
from planrun.web.guard import Guard
from planrun.web.intake import Intake
from planrun.web.problems import FOREIGN_HOST, FOREIGN_PAGE, Refused, problem_response

# A browser takes what is served for what it is declared, and shows it to no page of another site. A remote ledger takes
# for a reply only what says that it speaks the protocol.
ALWAYS = {
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-site",
    PROTOCOL_HEADER: str(PROTOCOL),
}


class Door:
    """Stands before every route."""

    def __init__(self, app: ASGIApp, *, guard: Guard, open_paths: Collection[str], headers: Mapping[str, str]) -> None:
        """
        Args:
            open_paths: What needs no token.
            headers: Of every reply, refusals too, beside those of every server.
        """
        self._app = app
        self._guard = guard
        self._open_paths = frozenset(open_paths)
        self._headers = [(name.encode(), value.encode()) for name, value in {**ALWAYS, **headers}.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        intake = Intake(scope, receive)

        async def send_marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *self._headers]
                await intake.drain()
            await send(message)

        try:
            await self._check(Headers(scope=scope), scope)
        except (Refused, PlanrunError) as refusal:
            await problem_response(refusal)(scope, intake.receive, send_marked)
        else:
            await self._app(scope, intake.receive, send_marked)

    async def _check(self, headers: Headers, scope: Scope) -> None:
        host = headers.get("host", "")
        if not is_own_name(host) and not await self._guard.asks():
            raise Refused(FOREIGN_HOST, f"host {host!r:.80}: ask for localhost or an IP address, or set a token")
        foreign = not is_from(headers.get("origin"), host)
        if scope["method"] not in ("GET", "HEAD") and (foreign or headers.get("sec-fetch-site") == "cross-site"):
            raise Refused(FOREIGN_PAGE, "a page of another site may not do this; ask from the application's own server")
        is_open = scope["path"] in self._open_paths
        scope["bearer"] = ANYBODY if is_open else await self._guard.bearer(headers.get("authorization", ""))


def is_from(origin: str | None, host: str) -> bool:
    """Is it a page of this server that asks, or no page at all?"""
    try:
        return origin is None or urlsplit(origin).netloc == host
    except ValueError:
        return False


def is_own_name(host: str) -> bool:
    """Can this `Host` be no name that a stranger points here? True for localhost and for every literal address."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        if name == "localhost":
            return True
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
