"""The API in a thread of its own, with an address that is checked before anything else starts."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import aclosing, contextmanager

import uvicorn

from planrun.client import AsyncClient
from planrun.config import TOKEN_VARIABLE
from planrun.core.errors import Invalid
from planrun.web.app import build_app
from planrun.web.calls import Followers
from planrun.web.guard import Guard
from planrun.web.ledger import Served
from planrun.web.limits import HEADERS_BYTES_MAX, Connection
from planrun.wiring import open_keyring

log = logging.getLogger(__name__)

STOP_S = 3  # for answers that are being written; whoever waits is told at once
BACKLOG = 256
KEEP_ALIVE_S = 75  # longer than whoever asks again keeps a connection
HANDSHAKE_S = 10.0  # of TLS; until then a connection is counted nowhere


def open_socket(listen: str, *, is_guarded: bool, is_secure: bool) -> socket.socket:
    """Listen at HOST:PORT; port 0: any free one.

    Args:
        is_guarded: Callers must have a token.
        is_secure: It is served with TLS, or somebody wants it without.

    Raises:
        Invalid: Not an address of this machine, or taken, or open to others without a token or TLS; says what to do.
    """
    host, port = _split(listen)
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError):
        raise Invalid(f"--listen {listen}: no such host; use 127.0.0.1:{port} or an address of this machine") from None
    is_reachable = not ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback
    if is_reachable and not is_guarded:
        raise Invalid(
            f"--listen {listen}: others can reach that; make a token that callers must send (planrun token create), "
            f"or set {TOKEN_VARIABLE} to a secret"
        )
    if is_reachable and not is_secure:
        raise Invalid(
            f"--listen {listen}: tokens would cross a network in the clear; give --tls-cert and --tls-key, "
            "or --insecure-http where something in front of it does TLS"
        )
    # asyncio turns Nagle's delay off only where the protocol is named: else a reply in two writes takes 40 ms longer.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise Invalid(
            f"--listen {listen}: {(error.strerror or str(error)).lower()}; choose another with --listen HOST:PORT, "
            "or none with planrun up --no-http"
        ) from None
    return listening


def address_of(listening: socket.socket, tls: ssl.SSLContext | None = None) -> str:
    """Where to point a browser."""
    host, port = listening.getsockname()[:2]
    return f"http{'s' if tls else ''}://{f'[{host}]' if ':' in host else host}:{port}/"


class HttpServer:
    """Serves one ledger until it is told to stop."""

    def __init__(self, url: str, listening: socket.socket, *, token: str, tls: ssl.SSLContext | None = None) -> None:
        self._url = url
        self._listening = listening
        self._token = token
        self._tls = tls
        self._told = False
        self._server: uvicorn.Server | None = None
        self._thread = threading.Thread(target=self._run, name="planrun-http", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def tell(self) -> None:
        """Stop, without waiting for it. May be called in a signal handler."""
        self._told = True
        if self._server is not None:
            self._server.should_exit = True

    def stop(self) -> None:
        """Stop, and wait until it has."""
        self.tell()
        self._thread.join(2 * STOP_S)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception:
            log.exception("the HTTP API has ended; the worker goes on")

    async def _serve(self) -> None:
        guard = Guard(secret=self._token, keyring=open_keyring(self._url))
        async with AsyncClient(self._url) as client, aclosing(guard):
            self._server = server_of(client, guard, tls=self._tls)
            self._server.should_exit = self._told
            await self._server.serve([self._listening])


def server_of(
    client: AsyncClient, guard: Guard, *, served: Served | None = None, tls: ssl.SSLContext | None = None
) -> uvicorn.Server:
    """The server of an open client, to be run in a loop of the caller's; `should_exit` ends it.

    Args:
        served: As in `build_app`.
        tls: What it shows; None: plain HTTP.
    """
    followers = Followers()
    config = uvicorn.Config(
        build_app(client, guard=guard, followers=followers, served=served),
        http=Connection,
        h11_max_incomplete_event_size=HEADERS_BYTES_MAX,
        ws="none",
        loop="none",
        lifespan="off",
        log_config=None,
        log_level=logging.WARNING,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=STOP_S,
        ssl_context_factory=None if tls is None else lambda *_: tls,
    )
    return _Server(config, followers)


class _Server(uvicorn.Server):
    """An open stream would keep uvicorn from stopping: those who wait end first."""

    def __init__(self, config: uvicorn.Config, followers: Followers) -> None:
        super().__init__(config)
        self._followers = followers

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """They belong to whoever runs it."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn does it, but for the handshake, which it lets take a minute."""

        def connection() -> Connection:
            return Connection(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)

        loop, tls = asyncio.get_running_loop(), self.config.ssl
        self.servers = [
            await loop.create_server(
                connection,
                sock=listening,
                ssl=tls,
                backlog=self.config.backlog,
                ssl_handshake_timeout=None if tls is None else HANDSHAKE_S,
            )
            for listening in sockets or ()
        ]
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._followers.stop()
        await super().shutdown(sockets)


def _split(listen: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise Invalid(f"--listen {listen}: write HOST:PORT, such as 127.0.0.1:8470")
    return host, int(port)
