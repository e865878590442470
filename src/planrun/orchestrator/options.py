"""What one orchestrator is told."""

from __future__ import annotations

import math
from dataclasses import dataclass

from planrun.core.addresses import Allowed, allowed_from
from planrun.core.errors import Invalid
from planrun.core.fleet import BROKER_PREFIX, LEASE_S
from planrun.core.keeping import IDS_TTL_S, IDS_TTL_S_MIN, JOB_TTL_S


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestratorOptions:
    """Attributes:
    store: Where results go: `s3://bucket/prefix`, or a folder that every machine sees; empty: beside the ledger.
    broker: `amqp(s)://…`; empty: workers ask for offers over HTTP.
    broker_prefix: What the names of its queues begin with.
    lease_s: How long a worker may be silent before others take its jobs over.
    allow_webhook: Names, addresses and networks that webhooks may go to, beside public addresses.
    gc_grace_s: How long files of lost attempts stay before they are collected.
    job_ttl_s: How long ended jobs stay in the ledger before they are archived.
    ids_ttl_s: How long the ids of archived jobs are still known.

    Raises:
        Invalid: One of them cannot be right; says what and what to do.
    """

    store: str = ""
    broker: str = ""
    broker_prefix: str = BROKER_PREFIX
    lease_s: float = LEASE_S
    allow_webhook: tuple[str, ...] = ()
    gc_grace_s: float = 24 * 3600
    job_ttl_s: float = JOB_TTL_S
    ids_ttl_s: float = IDS_TTL_S

    def __post_init__(self) -> None:
        for what, least in (("lease_s", 1), ("gc_grace_s", 0), ("job_ttl_s", 0), ("ids_ttl_s", IDS_TTL_S_MIN)):
            number = getattr(self, what)
            if not math.isfinite(number) or number < least:
                raise Invalid(f"{what} {number!r}: use {least} or more")

    @property
    def webhooks_allowed(self) -> Allowed:
        """
        Raises:
            Invalid: A pattern that allows nothing.
        """
        return allowed_from(self.allow_webhook)
