"""Where an answer is sent to, as the sender wrote it.

webhook:https://app.example/answers     POSTed there as JSON
rabbitmq:media-answers                  into an application's own queue, on the broker of the fleet
command:/usr/bin/notify --job done      a program, started with the answer on its standard input
publish:campaign-42/master.mp4=film     the output `film`, as a file of that name in the public folder
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from planrun.core.addresses import Allowed, is_literal
from planrun.core.errors import Invalid
from planrun.core.spelling import NAME_RULE, is_name

ALLOW_OPTION = "--allow-webhook"
ROUTE_LENGTH_MAX = 2000
QUEUE_CHARS_MAX = 200  # the message id, with job and route, is to fit into the 255 bytes that AMQP gives it
PUBLIC_NAME_CHARS_MAX = 512


@dataclass(frozen=True, slots=True)
class Webhook:
    url: str


@dataclass(frozen=True, slots=True)
class Queue:
    """It belongs to the application, and is there before the answer is."""

    name: str


@dataclass(frozen=True, slots=True)
class Command:
    """`argv` is started as it is: no shell reads it."""

    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Publish:
    """A public name, and the output that is to stand there; empty: the only one."""

    name: str
    output: str


@dataclass(frozen=True, slots=True)
class Outlets:
    """Which routes whoever sends the answers of a ledger has a way to.

    Attributes:
        programs: It starts programs. Not where others than this box hand in jobs: they would run what they like on it.
        broker_prefix: Of planrun's own queues on its broker; None: it has no broker.
        webhooks: Where they may go; None: anywhere.
    """

    programs: bool = True
    broker_prefix: str | None = None
    webhooks: Allowed | None = None

    def check(self, routes: Iterable[str]) -> None:
        """
        Raises:
            Invalid: Nothing would ever be sent to one of them.
        """
        for route in routes:
            scheme, _, rest = route.partition(":")
            if scheme == "command" and not self.programs:
                raise Invalid(f"route {route!r:.200}: an orchestrator starts no programs; write webhook:https://…")
            if scheme == "rabbitmq" and self.broker_prefix is None:
                raise Invalid(
                    f"route {route!r:.200}: this planrun has no broker; "
                    "give its orchestrator one with --broker, or write webhook:https://…"
                )
            if scheme == "rabbitmq" and rest.startswith(f"{self.broker_prefix}."):
                raise Invalid(f"route {route!r:.200}: that queue is planrun's own; name one of your application")
            if scheme == "webhook" and self.webhooks is not None:
                host = urlsplit(rest).hostname or ""
                if is_literal(host):  # what a name resolves to is judged when it is asked
                    self.webhooks.check(host, [host], option=ALLOW_OPTION)


EMBEDDED = Outlets()


def check_route(text: str) -> Webhook | Queue | Command | Publish:
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
        case "rabbitmq":
            return _queue(rest)
        case "command":
            return _command(rest)
        case "publish":
            return _publish(rest)
        case _:
            raise Invalid(
                f"route {text!r}: write webhook:https://…, rabbitmq:QUEUE, command:PROGRAM ARGUMENTS or publish:NAME"
            )


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


def _queue(name: str) -> Queue:
    is_plain = name.isascii() and name.isprintable() and not any(char.isspace() for char in name)
    if not is_plain or not 0 < len(name) <= QUEUE_CHARS_MAX:
        raise Invalid(
            f"queue {name!r:.200}: write its name in at most {QUEUE_CHARS_MAX} ASCII characters without spaces"
        )
    if name.startswith("amq."):
        raise Invalid(f"queue {name}: names that start with amq. are the broker's own; declare a queue of your own")
    return Queue(name)


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
