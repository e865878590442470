"""The address of a broker: `amqp(s)://user:password@host:port/vhost`, and what planrun reads of its query.

`?queues=classic` takes classic queues instead of quorum ones; everything else there is for the client library
(`cafile=`, `certfile=`, `keyfile=`, `heartbeat=` in seconds).
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from planrun.core.errors import Invalid
from planrun.core.spelling import NAME_RULE, is_name
from planrun.transport.rabbitmq.topology import Topology

QUEUE_TYPES = ("quorum", "classic")
HEARTBEAT_S = 10  # a silent broker is given up after about three of these


@dataclass(frozen=True, slots=True)
class Broker:
    """Attributes:
    url: For the client library; it has the password.
    topology: Names and types of the queues there.
    """

    url: str
    topology: Topology

    def __str__(self) -> str:
        return shown(self.url)


def broker_at(url: str, prefix: str) -> Broker:
    """Read an address.

    Raises:
        Invalid: Not the address of a RabbitMQ, or not a prefix. Shows no password.
    """
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("amqp", "amqps") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_address = False
    if not is_address:
        raise Invalid("--broker is not the address of a RabbitMQ: write amqp://user:password@host:5672/ or amqps://…")
    if not is_name(prefix):
        raise Invalid(f"--broker-prefix {prefix!r}: use {NAME_RULE}")
    query = dict(parse_qsl(parts.query))
    queue_type = query.pop("queues", QUEUE_TYPES[0])
    if queue_type not in QUEUE_TYPES:
        raise Invalid(f"queues={queue_type!r:.40} at the end of the broker's address: use {' or '.join(QUEUE_TYPES)}")
    query.setdefault("heartbeat", str(HEARTBEAT_S))
    plain = urlunsplit((parts.scheme, parts.netloc, parts.path, urlencode(query), ""))
    return Broker(plain, Topology(prefix, queue_type))


def shown(url: str) -> str:
    """The address without its password."""
    parts = urlsplit(url)
    user = f"{parts.username}@" if parts.username else ""
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    return urlunsplit((parts.scheme, f"{user}{host}:{parts.port}" if parts.port else user + host, parts.path, "", ""))
