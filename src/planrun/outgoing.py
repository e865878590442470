"""HTTP to addresses that somebody else named: resolved, judged, and connected to as judged.

A name may resolve to one address while it is looked at and to another one a moment later. So the look is taken by
whoever opens the connection, for each connection anew, and redirects get the same look as any other request.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from typing import Any

import httpcore2
import httpx2

from planrun.core.addresses import Allowed

LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=5.0)
"""Whoever asks says how much at once: a pool would let one wait for what another's receiver holds."""


class JudgedTransport(httpx2.AsyncHTTPTransport):
    """Connects to what is allowed and to nothing else; no proxy of the environment is used.

    Raises (every request):
        Invalid: The name resolves to nothing that is allowed. Nothing was sent.
    """

    def __init__(self, allowed: Allowed, *, option: str) -> None:
        """
        Args:
            option: With which an operator allows more; for the words of a refusal.
        """
        super().__init__()
        # The same pool, but for the hand that opens connections: the transport passes none on.
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=httpx2.create_ssl_context(),
            max_connections=LIMITS.max_connections,
            max_keepalive_connections=LIMITS.max_keepalive_connections,
            keepalive_expiry=LIMITS.keepalive_expiry,
            network_backend=_Judge(allowed, option),
        )


class _Judge(httpcore2.AsyncNetworkBackend):
    def __init__(self, allowed: Allowed, option: str) -> None:
        self._allowed = allowed
        self._option = option
        self._network = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 -- the port's own
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise httpcore2.ConnectError(f"{host} is not found: {error}") from None
        addresses = dict.fromkeys(str(entry[4][0]) for entry in found)
        judged = self._allowed.check(host, addresses, option=self._option)
        failed: Exception | None = None
        for address in judged:
            try:
                return await self._network.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failed = error
        assert failed is not None
        raise failed

    async def sleep(self, seconds: float) -> None:
        await self._network.sleep(seconds)
