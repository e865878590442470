"""What the orchestrator of a fleet asks of its ledger beside the common port. Served to nobody else."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from planrun.core.flows import Astray
from planrun.core.machines import MachineClass
from planrun.core.messages import RenewRequest, Standing, WorkerRow
from planrun.ledger.contract import Ledger


class FleetLedger(Ledger, Protocol):
    """A ledger whose holders live on other machines: its leases are a little longer than those they allow themselves.

    `due` names no holders: nothing on this machine proves that one of them is dead.

    Raises (every method): as `Ledger`.
    """

    async def renew_all(self, requests: Sequence[RenewRequest]) -> list[list[Standing]]:
        """Heartbeats of many workers, in one transaction, counted from the moment in which it runs. Same order."""
        ...

    async def begin_beats(self) -> int:
        """A new epoch of the heartbeats; whoever had an older one re-arms nothing any more.

        Returns:
            One more than the last. A ledger that was restored counts again, in another generation.
        """
        ...

    async def rearm(self, *, beat_epoch: int) -> int:
        """Give all running leases their full length again. Returns how many; none if that epoch is not the newest."""
        ...

    async def silent(self, *, stamp_ms: int) -> dict[str, int]:
        """How many leases of each worker, by incarnation, ran out at or before `stamp_ms` (boottime)."""
        ...

    async def astray(self, job_ids: Collection[str]) -> list[Astray]:
        """Of these jobs: attempts that were ended by others than their worker, and may still run there."""
        ...

    async def workers_among(self, names: Collection[str]) -> list[WorkerRow]:
        """Those of the names that are incarnations of workers."""
        ...

    async def declare(self, classes: Sequence[MachineClass]) -> None:
        """What the fleet can do even while no such machine is up: these classes, and no others."""
        ...

    async def say_offering(self, *, goes_on: bool | None) -> None:
        """For those who ask why a job waits: does the broker take offers? None: there is none."""
        ...

    def watch(self, changed: Callable[[frozenset[str] | None], None]) -> None:
        """Call back after every commit of this process, on any thread, at once and never to wait.

        The argument names the jobs, and the workers' incarnations, that it was about; None: nobody knows.
        """
        ...
