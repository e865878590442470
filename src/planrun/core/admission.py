"""May this worker take one more job now? Pure arithmetic over what was measured and promised.

The rule for disk: every running job could write its full output at this very moment, and there
would still be room for the new one and for the floor.

    free ≥ floor + Σ over running jobs of max(0, reserve − used) + reserve of the new one

An upload is a copy, so where the store lies on the scratch's disk a job's reserve is twice its
output. Memory follows the same rule with what the job's tree uses now; kinds without a memory limit
reserve none. A refusal never touches the ledger: the job waits, and no attempt is charged.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from planrun.core.kinds import Kind

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What one job may still take, and what of it is in use. Bytes.

    Attributes:
        disk_reserve: What it may ever hold on the scratch's disk, its upload included.
        disk_used: What its scratch holds now.
        memory_reserve: Its memory limit; 0: it has none.
        memory_used: Resident memory of its tree now.
    """

    disk_reserve: int
    disk_used: int = 0
    memory_reserve: int = 0
    memory_used: int = 0

    @property
    def disk_outstanding(self) -> int:
        return max(0, self.disk_reserve - self.disk_used)

    @property
    def memory_outstanding(self) -> int:
        return max(0, self.memory_reserve - self.memory_used)


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What the machine has, as measured just now. Bytes.

    Attributes:
        slots_free: Of this worker.
        disk_floor: Always left free.
        memory_free: What new processes can get without swapping; None: not known, not checked.
        store_shares_disk: The store lies on the scratch's disk.
    """

    slots_free: int
    disk_free: int
    disk_total: int
    disk_floor: int
    memory_free: int | None
    memory_total: int | None
    store_shares_disk: bool


@dataclass(frozen=True, slots=True)
class Admitted:
    """Attributes:
    load: What the job takes up from now on.
    """

    load: Load


@dataclass(frozen=True, slots=True)
class Refused:
    """Attributes:
    why: One sentence with the numbers, for logs and for people.
    """

    why: str


def load_of(kind: Kind, *, store_shares_disk: bool) -> Load:
    """What a job of this kind reserves before it has used anything."""
    copies = 2 if store_shares_disk else 1
    return Load(disk_reserve=copies * kind.output_bytes_max, memory_reserve=kind.memory_bytes_max)


def admit(kind: Kind, running: Iterable[Load], room: Room) -> Admitted | Refused:
    """Decide whether one more job of this kind fits.

    Args:
        running: All jobs that live on this machine's scratch disk, also those of other workers.
    """
    if room.slots_free < 1:
        return Refused("all slots of this worker are taken")
    new = load_of(kind, store_shares_disk=room.store_shares_disk)
    running = tuple(running)
    return _disk(kind, new, running, room) or _memory(kind, new, running, room) or Admitted(new)


def _disk(kind: Kind, new: Load, running: tuple[Load, ...], room: Room) -> Refused | None:
    outstanding = sum(load.disk_outstanding for load in running)
    asks = f"{kind.kind} {kind.version} reserves {shown(new.disk_reserve)} of scratch disk"
    if room.store_shares_disk:
        asks += " (its output twice: the store is on that disk)"
    if new.disk_reserve + room.disk_floor > room.disk_total:
        total = f"that disk has {shown(room.disk_total)} in all, {shown(room.disk_floor)} of it kept free"
        return Refused(f"{asks}, but {total}: it can never run here")
    if new.disk_reserve + room.disk_floor + outstanding > room.disk_free:
        promised = f"{shown(outstanding)} are promised to {_jobs(running)}"
        free = f"{shown(room.disk_free)} are free, of which {promised} and {shown(room.disk_floor)} stay free"
        return Refused(f"{asks}, but {free}")
    return None


def _memory(kind: Kind, new: Load, running: tuple[Load, ...], room: Room) -> Refused | None:
    if not new.memory_reserve or room.memory_free is None:
        return None
    asks = f"{kind.kind} {kind.version} reserves {shown(new.memory_reserve)} of memory"
    if room.memory_total is not None and new.memory_reserve > room.memory_total:
        return Refused(f"{asks}, but this machine has {shown(room.memory_total)} in all: it can never run here")
    outstanding = sum(load.memory_outstanding for load in running)
    if new.memory_reserve + outstanding > room.memory_free:
        promised = f"{shown(outstanding)} are promised to {_jobs(running)}"
        return Refused(f"{asks}, but {shown(room.memory_free)} are free, of which {promised}")
    return None


def _jobs(running: tuple[Load, ...]) -> str:
    return "1 running job" if len(running) == 1 else f"{len(running)} running jobs"


def shown(count: int) -> str:
    """Bytes as people write them: 64 MiB, 1.5 GiB."""
    amount, unit = float(count), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{round(amount, 1):g} {_UNITS[unit]}"
