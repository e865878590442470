"""What a machine has to know to join a fleet, beside an address and a token. It opens broker and store: a secret."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from planrun.core.messages import Struct

LEASE_S = 90.0
BROKER_PREFIX = "pr"


class Fleet(Struct, kw_only=True):
    """Attributes:
    store: Where results go: `s3://bucket/prefix`, or a folder that every machine sees.
    store_access: Server and credentials of that bucket, as AWS_* variables; what a machine has of its own goes first.
    broker: Where offers come from, `amqp(s)://…`; empty: they are asked for over HTTP.
    broker_prefix: What the names of its queues begin with.
    lease_s: How long a worker may be silent before others take its jobs over.
    """

    store: str
    store_access: Mapping[str, str] = msgspec.field(default_factory=dict)
    broker: str = ""
    broker_prefix: str = BROKER_PREFIX
    lease_s: float = LEASE_S
