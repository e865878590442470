"""Where an answer is sent to, as the sender wrote it.

webhook:https://app.example/answers     POSTed there as JSON
command:/usr/bin/notify --job done      a program, started with the answer on its standard input
publish:campaign-42/master.mp4=film     the output `film`, as a file of that name in the public folder
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from urllib.parse import urlsplit

from planrun.core.errors import Invalid
from planrun.core.spelling import NAME_RULE, is_name

ROUTE_LENGTH_MAX = 2000
PUBLIC_NAME_CHARS_MAX = 512


@dataclass(frozen=True, slots=True)
class Webhook:
    url: str


@dataclass(frozen=True, slots=True)
class Command:
    """`argv` is started as it is: no shell reads it."""

    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Publish:
    """A public name, and the output that is to stand there; empty: the only one."""

    name: str
    output: str


def check_route(text: str) -> Webhook | Command | Publish:
    """Read a route.

    Raises:
        Invalid: No answer could ever be sent there.
    """
    if len(text) > ROUTE_LENGTH_MAX:
        raise Invalid(f"a route of {len(text)} characters: at most {ROUTE_LENGTH_MAX} are allowed")
    scheme, _, rest = text.partition(":")
    match scheme:
        case "webhook":
            return _webhook(rest)
        case "command":
            return _command(rest)
        case "publish":
            return _publish(rest)
        case _:
            raise Invalid(f"route {text!r}: write webhook:https://…, command:PROGRAM ARGUMENTS or publish:NAME")


def _webhook(url: str) -> Webhook:
    # The route becomes part of the message id, which travels in an HTTP header.
    if not url.isascii() or any(char.isspace() or not char.isprintable() for char in url):
        raise Invalid(f"webhook {url!r}: write it percent-encoded, without spaces and in ASCII only")
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise Invalid(f"webhook {url!r}: write a full address such as https://app.example/answers")
    return Webhook(url)


def _publish(text: str) -> Publish:
    name, equals, output = text.partition("=")
    if len(name) > PUBLIC_NAME_CHARS_MAX or not all(is_name(part) for part in name.split("/")):
        raise Invalid(f"public name {name!r:.200}: write parts such as campaign-42/master.mp4, each of {NAME_RULE}")
    if equals and not is_name(output):
        raise Invalid(f"public name {name}: {output!r:.200} is no output name; use {NAME_RULE}")
    return Publish(name, output)


def _command(line: str) -> Command:
    try:
        argv = tuple(shlex.split(line))
    except ValueError as error:
        raise Invalid(f"command {line!r}: {error}") from None
    if not argv or not argv[0] or "\0" in line:
        raise Invalid(f"command {line!r}: name a program, such as command:/usr/bin/notify --job done")
    return Command(argv)
