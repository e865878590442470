"""The gates: before a worker asks for a job, could this machine bear it?

Health first, then slots, disk and memory by the rules of `core.admission`, measured at that moment and
together with what all workers of this scratch root have promised to their jobs. A closed gate is one
sentence; it never touches the ledger, and the job waits for another moment or another machine.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from planrun.clock import Clock
from planrun.core.admission import Admitted, Load, Refused, Room, admit
from planrun.core.errors import Invalid
from planrun.core.kinds import Kind
from planrun.program import ProgramFailed, run_program
from planrun.worker.reservations import Reservations

HEALTH_TTL_S = 30.0
HEALTH_TIMEOUT_S = 10.0


class Health:
    """A command that must exit with 0 before work is taken. Its answer holds for a while."""

    def __init__(
        self, command: str, clock: Clock, *, ttl_s: float = HEALTH_TTL_S, timeout_s: float = HEALTH_TIMEOUT_S
    ) -> None:
        """
        Args:
            command: Split like a shell line, but run without a shell.
            ttl_s: How long an answer holds, good or bad. Seconds.
            timeout_s: A probe that takes longer is killed and counts as a failure. Seconds.

        Raises:
            Invalid: Not a command.
        """
        try:
            self._argv = shlex.split(command)
        except ValueError as error:
            raise Invalid(f"health command {command!r}: {error}") from None
        if not self._argv:
            raise Invalid("the health command is empty; leave it out to take work without a probe")
        self._clock = clock
        self._ttl_ms = round(ttl_s * 1000)
        self._timeout_s = timeout_s
        self._asking = asyncio.Lock()
        self._holds_until_ms: int | None = None
        self._why_not: str | None = None

    @property
    def is_good(self) -> bool:
        """Does a good answer still hold?"""
        return self._why_not is None and not self._is_due

    @property
    def _is_due(self) -> bool:
        return self._holds_until_ms is None or self._clock.boot_ms() >= self._holds_until_ms

    async def why_not(self) -> str | None:
        """One sentence if the machine is not well; None if it is."""
        async with self._asking:
            if self._is_due:
                self._why_not = await self._probe()
                self._holds_until_ms = self._clock.boot_ms() + self._ttl_ms
            return self._why_not

    async def _probe(self) -> str | None:
        try:
            await run_program(self._argv, timeout_s=self._timeout_s)
        except ProgramFailed as error:
            return f"the health probe failed: {error}"
        return None


class Reservation:
    """The room of one job, from before its grant until its folder is gone."""

    def __init__(self, gates: Gates) -> None:
        self._gates = gates

    def used(self, *, disk_bytes: int, memory_bytes: int) -> None:
        """Tell what the job holds by now, so that it is not counted both as taken and as promised."""
        self._gates.tell_used(self, disk_bytes=disk_bytes, memory_bytes=memory_bytes)

    def release(self) -> None:
        """Give the room back. Repeating it is no error."""
        self._gates.release(self)


class Gates:
    """Admits jobs to one worker process."""

    def __init__(
        self,
        *,
        scratch: Path,
        store: Path | None,
        incarnation: str,
        slots: int,
        disk_free_bytes_min: int,
        health: Health | None = None,
    ) -> None:
        """
        Args:
            scratch: Root of the attempts' folders; made if it is missing.
            store: Where results go, only asked whether it lies on the same disk; None: it does not.
            disk_free_bytes_min: Always left free on the scratch disk, bytes.
            health: Must be well before work is taken.
        """
        self._scratch = scratch
        self._store = store
        self._slots = slots
        self._disk_floor = disk_free_bytes_min
        self._health = health
        self._reservations = Reservations(scratch, incarnation)
        self._loads: dict[Reservation, Load] = {}

    async def is_well(self) -> bool:
        """Has a probe found this machine well? Without one nobody knows."""
        return self._health is not None and await self._health.why_not() is None

    async def admit(self, kind: Kind) -> Reservation | Refused:
        """Reserve room for one more job of this kind, or say why not now."""
        if self._health is not None:
            illness = await self._health.why_not()
            if illness is not None:
                return Refused(illness)
        try:
            return self._reserve(kind)
        except (OSError, msgspec.DecodeError) as error:
            return Refused(f"room in {self._scratch} cannot be reserved: {error}")

    def still_admit(self, kind: Kind, reservation: Reservation) -> bool:
        """May the next job of this kind have the room of one that leaves none of it behind? Never asks the probe."""
        if self._health is not None and not self._health.is_good:
            return False
        others = [load for other, load in self._loads.items() if other is not reservation]
        try:
            if isinstance(self._decide(kind, others), Refused):
                return False
        except (OSError, msgspec.DecodeError):
            return False
        reservation.used(disk_bytes=0, memory_bytes=0)
        return True

    def tell_used(self, reservation: Reservation, *, disk_bytes: int, memory_bytes: int) -> None:
        """See `Reservation.used`."""
        if reservation in self._loads:  # else a late word of a job whose room was given back
            load = self._loads[reservation]
            self._loads[reservation] = replace(load, disk_used=disk_bytes, memory_used=memory_bytes)
            if self._loads[reservation] != load:
                self._announce_later()

    def release(self, reservation: Reservation) -> None:
        """See `Reservation.release`."""
        if self._loads.pop(reservation, None) is not None:
            self._announce_later()

    def close(self) -> None:
        """This worker takes no more jobs and has none."""
        self._reservations.close()

    def _reserve(self, kind: Kind) -> Reservation | Refused:
        """Look, announce, look again: the first look spares the others the announcements of the hopeless."""
        self._reservations.prepare()
        mine = list(self._loads.values())
        decided = self._decide(kind, mine)
        if isinstance(decided, Refused):
            return decided
        reservation = Reservation(self)
        self._loads[reservation] = decided.load
        try:
            self._reservations.announce(self._loads.values())
            decided = self._decide(kind, mine)
        except BaseException:
            self.release(reservation)
            raise
        if isinstance(decided, Refused):
            self.release(reservation)
            return decided
        return reservation

    def _decide(self, kind: Kind, mine: list[Load]) -> Admitted | Refused:
        others = self._reservations.of_others()
        disk = os.statvfs(self._scratch)
        memory = _memory() if kind.memory_bytes_max else {}
        room = Room(
            slots_free=self._slots - len(mine),
            disk_free=disk.f_bavail * disk.f_frsize,
            disk_total=disk.f_blocks * disk.f_frsize,
            disk_floor=self._disk_floor,
            memory_free=memory.get("MemAvailable"),
            memory_total=memory.get("MemTotal"),
            store_shares_disk=self._store is not None and _device_of(self._scratch) == _device_of(self._store),
        )
        return admit(kind, mine + others, room)

    def _announce_later(self) -> None:
        """What is announced now can only be too much; it is put right at the next announcement."""
        with suppress(OSError):
            self._reservations.announce(self._loads.values())


def _memory() -> dict[str, int]:
    """The machine's memory by the kernel's names, bytes; empty where it does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return {}
    fields = (line.split() for line in lines)
    return {field[0].rstrip(":"): int(field[1]) * 1024 for field in fields if field[-1] == "kB"}


def _device_of(path: Path) -> int:
    """The disk of a path, which need not exist yet."""
    try:
        return path.stat().st_dev
    except FileNotFoundError:
        return _device_of(path.parent)
