"""Where the HTTP API listens and how it is protected: options of every command that serves it."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from planrun.cli.asking import Flag
from planrun.core.errors import Invalid
from planrun.tls import server_context

LISTEN = "127.0.0.1:8470"
WITH_VALUE = ("--listen", "--tls-cert", "--tls-key", "--tls-client-ca")
ALONE = ("--insecure-http",)


def _file(name: str, text: str) -> Parameter:
    return Parameter(name=name, help=text, show_default=False)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ListenFlags:
    """As the shell spells them."""

    listen: Annotated[
        str | None,
        Parameter(
            name="--listen",
            help=f"HOST:PORT of the HTTP API; without it {LISTEN}. Others than this box need a token and TLS.",
            show_default=False,
        ),
    ] = None
    tls_cert: Annotated[
        Path | None, _file("--tls-cert", "PEM file with the certificate that it shows, and those up to its CA.")
    ] = None
    tls_key: Annotated[Path | None, _file("--tls-key", "PEM file with the key of that certificate.")] = None
    tls_client_ca: Annotated[
        Path | None, _file("--tls-client-ca", "PEM file: callers must show a certificate of this CA, too.")
    ] = None
    insecure_http: Annotated[
        Flag, Parameter(name="--insecure-http", help="Let tokens cross a network in the clear: no TLS, on purpose.")
    ] = False

    @property
    def tls(self) -> ssl.SSLContext | None:
        """What the server shows; None: plain HTTP.

        Raises:
            Invalid: A file cannot be right, or one is missing.
        """
        if self.tls_cert is None and self.tls_key is None:
            if self.tls_client_ca is not None:
                raise Invalid("--tls-client-ca needs --tls-cert and --tls-key")
            return None
        if self.tls_cert is None or self.tls_key is None:
            raise Invalid("give both --tls-cert and --tls-key, or none of them")
        return server_context(self.tls_cert, self.tls_key, client_ca=self.tls_client_ca)


def without_listening(tokens: Iterable[str]) -> list[str]:
    """A command line without these options, for a command that does not know them."""
    kept: list[str] = []
    left = iter(tokens)
    for token in left:
        if token == "--":
            return [*kept, token, *left]
        if token in WITH_VALUE:
            next(left, None)
        elif token.partition("=")[0] not in (*WITH_VALUE, *ALONE):
            kept.append(token)
    return kept
