"""The ledger of a fleet over one SQLite file: what the orchestrator alone asks of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

from planrun.clock import Clock
from planrun.config import Place
from planrun.core.errors import Invalid
from planrun.core.flows import Astray
from planrun.core.lease import fleet_lease_ms
from planrun.core.machines import MachineClass
from planrun.core.messages import Due, RenewRequest, Standing, WorkerRow
from planrun.core.routes import Outlets
from planrun.core.routing import WARM_AFTER_MS
from planrun.ledger.hands import Hands
from planrun.ledger.sqlite.ledger import SqliteLedger
from planrun.ledger.sqlite.thread import THREADED
from planrun.ledger.verbs import duties, fleet


class SqliteFleetLedger(SqliteLedger):
    """Implements `planrun.ledger.fleet.FleetLedger`. Made by `open_fleet_ledger`."""

    def __init__(
        self,
        place: Place,
        clock: Clock,
        *,
        outlets: Outlets,
        warm_after_ms: int = WARM_AFTER_MS,
        hands: Hands = THREADED,
    ) -> None:
        """
        Args:
            warm_after_ms: From when on a job fails at once that nobody could run.

        Raises:
            LedgerUnusable: As `SqliteLedger`.
        """
        super().__init__(place, clock, outlets=outlets, hands=hands)
        self._warm_from_ms = clock.boot_ms() + warm_after_ms

    async def due(self) -> Due:
        return await self._read(partial(duties.due, holders=False))

    async def renew_all(self, requests: Sequence[RenewRequest]) -> list[list[Standing]]:
        return await self._renew(requests)

    async def begin_beats(self) -> int:
        return await self._write(duties.begin_beats, urgent=True)

    async def rearm(self, *, beat_epoch: int) -> int:
        return await self._write(partial(duties.rearm, beat_epoch=beat_epoch), urgent=True)

    async def silent(self, *, stamp_ms: int) -> dict[str, int]:
        return await self._read(partial(duties.silent, stamp_ms=stamp_ms))

    async def astray(self, job_ids: Collection[str]) -> list[Astray]:
        return await self._read(partial(duties.astray, job_ids=job_ids))

    async def workers_among(self, names: Collection[str]) -> list[WorkerRow]:
        return await self._read(partial(fleet.workers_among, names=names))

    async def set_rate(self, kind: str, per_s: float | None) -> None:
        if self._outlets.broker_prefix is None:
            raise Invalid(
                "this fleet has no broker, so its workers take jobs at their own rate; give the orchestrator one"
            )
        await self._write(partial(fleet.set_rate, kind=kind, per_s=per_s))

    async def say_offering(self, *, goes_on: bool | None) -> None:
        await self._write(partial(fleet.say_offering, goes_on=goes_on))

    def watch(self, changed: Callable[[frozenset[str] | None], None]) -> None:
        self._writer.watch(changed)

    async def declare(self, classes: Sequence[MachineClass]) -> None:
        await self._write(partial(fleet.declare, classes=classes))

    def _is_warm(self) -> bool:
        return self._clock.boot_ms() >= self._warm_from_ms

    def _lease_ms(self, asked_ms: int) -> int:
        return fleet_lease_ms(asked_ms)
