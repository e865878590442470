"""A fleet on a stage: a ledger, a transport in memory, an orchestrator that is ticked, and workers with clocks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from planrun.core.errors import TransportUnavailable
from planrun.core.lease import HeldLease
from planrun.core.life import State
from planrun.core.messages import Beat, Lease, RenewRequest
from planrun.ledger.fleet import FleetLedger
from planrun.orchestrator.beats import Beats
from planrun.orchestrator.sweeper import Sweeper
from tests.contract.actors import Actors
from tests.contract.manual_clock import ManualClock
from tests.orchestrator.memory_transport import MemoryTransport

LEASE_MS = 90_000
BEAT_MS = 30_000
LEDGER_LEASE_S = 92.18
STEP_S = 2.0


@dataclass
class Holder:
    """A worker that holds leases and beats through the broker, by the rules of `core.lease`.

    Attributes:
        beliefs: By job, as its confirmations made them.
        is_cut: It reaches nobody.
    """

    name: str
    leases: list[Lease]
    beliefs: dict[str, HeldLease] = field(default_factory=dict)
    beat_ms: int = 0
    is_cut: bool = False

    def trusts(self, lease: Lease, now_ms: int) -> bool:
        return self.beliefs[lease.job_id].is_trusted(now_ms=now_ms)

    def beat(self, transport: MemoryTransport, now_ms: int) -> None:
        self.beat_ms = now_ms
        request = RenewRequest(
            incarnation=self.name, beats=tuple(Beat(lease=lease) for lease in self.leases), lease_ms=LEASE_MS
        )
        if not self.is_cut and transport.arrive(request):
            for lease in self.leases:
                belief = self.beliefs[lease.job_id]
                self.beliefs[lease.job_id] = belief.confirmed(sent_ms=now_ms, now_ms=now_ms)


class FleetStage:
    """Time passes in steps; in each, workers beat where it is due and the orchestrator looks once."""

    def __init__(self, ledger: FleetLedger, clock: ManualClock) -> None:
        self.ledger = ledger
        self.clock = clock
        self.they = Actors(ledger, clock)
        self.transport = MemoryTransport()
        self.holders: dict[str, Holder] = {}
        self.taken_from_a_believer: list[str] = []
        self.is_orchestrated = True
        self.start_orchestrator()

    def start_orchestrator(self) -> None:
        """A new process: it remembers nothing. Its connection is new, too."""
        self.transport.break_way(lose=False)
        self.beats = Beats(self.ledger, self.transport, self.clock)
        self.sweeper = Sweeper(self.ledger, expiry=self.beats, proof_of_death=False)

    async def hold(self, *names: str, leases: int = 1) -> None:
        """Workers that hold jobs from now on."""
        for name in names:
            asked_ms = self.clock.boot_ms_now
            jobs = [(await self.they.submit(content=f"{name}-{n}")).job_id for n in range(leases)]
            found = [await self.they.grant(job_id, by=name, lease_ms=LEASE_MS) for job_id in jobs]
            holder = self.holders[name] = Holder(name, found, beat_ms=asked_ms)
            for lease in found:
                holder.beliefs[lease.job_id] = HeldLease(
                    job_id=lease.job_id,
                    attempt=lease.attempt,
                    token=lease.token,
                    lease_ms=LEASE_MS,
                    trusted_until_ms=asked_ms + LEASE_MS,
                )

    def cut(self, *names: str) -> None:
        for name in names:
            self.holders[name].is_cut = True

    async def look(self) -> None:
        """One tick of everything. A broker that is away is met again at the next."""
        if not self.is_orchestrated:
            return
        with suppress(TransportUnavailable):
            await self.beats.take_in(self.clock.boot_ms_now)
        with suppress(TransportUnavailable):
            await self.sweeper.tick(self.clock.boot_ms_now)
        with suppress(TransportUnavailable):
            await self.beats.take_in(self.clock.boot_ms_now)

    async def pass_time(self, seconds: float) -> None:
        """Let time pass; note each lease that ends while its holder may still trust itself."""
        until_ms = self.clock.boot_ms_now + round(seconds * 1000)
        while self.clock.boot_ms_now < until_ms:
            self.clock.advance(min(STEP_S, (until_ms - self.clock.boot_ms_now) / 1000))
            now_ms = self.clock.boot_ms_now
            for holder in self.holders.values():
                if now_ms - holder.beat_ms >= BEAT_MS:
                    holder.beat(self.transport, now_ms)
            await self.look()
            await self._judge()

    async def lost(self) -> set[str]:
        """The workers of whom a lease was taken."""
        return {name for name, _ in await self._gone()}

    async def _gone(self) -> Iterable[tuple[str, Lease]]:
        found = []
        for holder in self.holders.values():
            held = set(await self.ledger.held(holder.name))
            found += [(holder.name, lease) for lease in holder.leases if lease not in held]
        return found

    async def _judge(self) -> None:
        for name, lease in await self._gone():
            row = await self.they.row(lease.job_id)
            is_taken = row.state is State.QUEUED and row.losses > 0
            if is_taken and self.holders[name].trusts(lease, self.clock.boot_ms_now):
                self.taken_from_a_believer.append(name)
        await asyncio.sleep(0)
