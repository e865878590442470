"""What one orchestrator is told."""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from pathlib import Path

from planrun.core.addresses import Allowed, allowed_from
from planrun.core.errors import Invalid
from planrun.core.fleet import BROKER_PREFIX, LEASE_S
from planrun.core.keeping import IDS_TTL_S, IDS_TTL_S_MIN, JOB_TTL_S
from planrun.core.lease import LEASE_S_MAX
from planrun.core.machines import MachineClass, classes_of
from planrun.core.rates import parse_rate
from planrun.core.routing import WARM_AFTER_MS

_LEAST = (("lease_s", 1), ("warm_after_s", 0), ("gc_grace_s", 0), ("job_ttl_s", 0), ("ids_ttl_s", IDS_TTL_S_MIN))


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestratorOptions:
    """Attributes:
    store: Where results go: `s3://bucket/prefix`, or a folder that every machine sees; empty: beside the ledger.
    broker: `amqp(s)://…`; empty: workers ask for offers over HTTP.
    worker_broker: The same broker as workers shall know it, by another name or account; empty: by the same.
    broker_prefix: What the names of its queues begin with.
    lease_s: How long a worker may be silent before others take its jobs over.
    allow_webhook: Names, addresses and networks that webhooks may go to, beside public addresses.
    fleet: Path of a file that declares classes of machines; empty: what workers register is all that is known.
    rate: How many jobs of a kind may be offered: `preview=5/s`; changes what was set before. Needs a broker.
    warm_after_s: So long after its start workers may register before a job fails that nobody could run.
    gc_grace_s: How long files of lost attempts stay before they are collected.
    job_ttl_s: How long ended jobs stay in the ledger before they are archived.
    ids_ttl_s: How long the ids of archived jobs are still known.
    recover: The ledger is an older copy: begin a new generation, and take over what was said since.

    Raises:
        Invalid: One of them cannot be right; says what and what to do.
    """

    store: str = ""
    broker: str = ""
    worker_broker: str = ""
    broker_prefix: str = BROKER_PREFIX
    lease_s: float = LEASE_S
    allow_webhook: tuple[str, ...] = ()
    fleet: str = ""
    rate: tuple[str, ...] = ()
    warm_after_s: float = WARM_AFTER_MS / 1000
    gc_grace_s: float = 24 * 3600
    job_ttl_s: float = JOB_TTL_S
    ids_ttl_s: float = IDS_TTL_S
    recover: bool = False

    def __post_init__(self) -> None:
        for what, least in _LEAST:
            number = getattr(self, what)
            if not math.isfinite(number) or number < least:
                raise Invalid(f"{what} {number!r}: use {least} or more")
        if self.lease_s > LEASE_S_MAX:
            raise Invalid(f"lease_s {self.lease_s!r}: use {LEASE_S_MAX} (30 days) or less")
        if self.worker_broker and not self.broker:
            raise Invalid("worker_broker: it is another name for the broker; name that with --broker")
        if self.rate and not self.broker:
            raise Invalid("rate: offers have a rate only where a broker carries them; name one with --broker")
        self.rates, self.machines  # noqa: B018 - what cannot be right is said at once

    @property
    def rates(self) -> dict[str, float | None]:
        """Jobs per second, by kind; None: no limit.

        Raises:
            Invalid: One of them is no rate.
        """
        return dict(map(parse_rate, self.rate))

    @property
    def machines(self) -> tuple[MachineClass, ...] | None:
        """The classes that the fleet file declares; None: there is no such file.

        Raises:
            Invalid: It cannot be read, or something in it cannot be right; names it.
        """
        if not self.fleet:
            return None
        try:
            table = tomllib.loads(Path(self.fleet).read_text())
        except OSError as error:
            raise Invalid(f"{self.fleet}: {error.strerror}; name a file with --fleet") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise Invalid(f"{self.fleet} is not TOML: {error}") from None
        return classes_of(table)

    @property
    def webhooks_allowed(self) -> Allowed:
        """
        Raises:
            Invalid: A pattern that allows nothing.
        """
        return allowed_from(self.allow_webhook)
