"""The gates on real disks and with real processes: promises add up, the dead promise nothing."""

# ruff: noqa: ASYNC110 -- tests look at files and poll with a deadline

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from planrun.clock import SystemClock
from planrun.core.admission import Load, Refused
from planrun.core.errors import Invalid
from planrun.core.kinds import GIB, MIB, Kind
from planrun.worker import gates as gates_module
from planrun.worker.gates import Gates, Health, Reservation
from planrun.worker.reservations import Reservations

pytestmark = pytest.mark.anyio

PREVIEW = Kind(kind="preview", version="v1", module="m", output_bytes_max=10 * MIB)

# Promises 30 MiB, says so, and waits.
NEIGHBOUR = """
import sys
from pathlib import Path
from planrun.core.admission import Load
from planrun.worker.reservations import Reservations

mine = Reservations(Path(sys.argv[1]), "neighbour")
mine.announce([Load(disk_reserve=30 << 20)])
print("announced", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A scratch root on a disk that has 64 MiB free of 100, as far as the gates can see."""

    class Disk:
        f_bavail, f_blocks, f_frsize = 64, 100, MIB

    monkeypatch.setattr(os, "statvfs", lambda path: Disk)
    return tmp_path / "scratch"


def gates_at(scratch: Path, incarnation: str = "w1", *, slots: int = 10, health: Health | None = None) -> Gates:
    return Gates(
        scratch=scratch,
        store=Path("/proc/elsewhere"),
        incarnation=incarnation,
        slots=slots,
        disk_free_bytes_min=4 * MIB,
        health=health,
    )


async def fill(gates: Gates, kind: Kind = PREVIEW) -> list[Reservation]:
    """Admit until the gate closes."""
    taken: list[Reservation] = []
    while isinstance(admitted := await gates.admit(kind), Reservation):
        taken.append(admitted)
    return taken


async def why_not(gates: Gates, kind: Kind = PREVIEW) -> str:
    refused = await gates.admit(kind)
    assert isinstance(refused, Refused)
    return refused.why


async def test_jobs_are_admitted_as_long_as_all_could_fill_their_output_at_once(scratch: Path) -> None:
    """C39: 64 MiB free, 4 kept free: six jobs of 10 MiB and no seventh."""
    gates = gates_at(scratch)

    assert len(await fill(gates)) == 6
    assert "60 MiB are promised to 6 running jobs" in await why_not(gates)


async def test_room_that_is_given_back_is_taken_again(scratch: Path) -> None:
    gates = gates_at(scratch)
    taken = await fill(gates)
    taken[0].release()
    taken[0].release()
    taken[0].used(disk_bytes=1, memory_bytes=1)

    assert len(await fill(gates)) == 1


async def test_what_a_job_holds_already_is_not_promised_twice(scratch: Path) -> None:
    gates = gates_at(scratch)
    taken = await fill(gates)
    for reservation in taken:
        reservation.used(disk_bytes=10 * MIB, memory_bytes=0)

    assert len(await fill(gates)) == 4  # up to the ten slots


async def test_no_job_is_admitted_beyond_the_slots(scratch: Path) -> None:
    gates = gates_at(scratch, slots=2)

    assert len(await fill(gates)) == 2
    assert await why_not(gates) == "all slots of this worker are taken"


async def test_the_promises_of_workers_on_one_scratch_root_add_up(scratch: Path) -> None:
    first, second = gates_at(scratch, "w1"), gates_at(scratch, "w2")
    taken = await fill(first)
    taken.pop().release()

    assert len(await fill(second)) == 1
    assert isinstance(await first.admit(PREVIEW), Refused)
    first.close()
    assert len(await fill(second)) == 5


async def test_a_refused_job_leaves_no_promise(scratch: Path) -> None:
    first, second = gates_at(scratch, "w1"), gates_at(scratch, "w2")
    huge = Kind(kind="export", version="v1", module="m", output_bytes_max=61 * MIB)

    assert "export v1 reserves 61 MiB" in await why_not(first, huge)
    assert len(await fill(second)) == 6


@pytest.fixture
def neighbour(scratch: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", NEIGHBOUR, str(scratch)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "announced\n"
    yield process
    process.kill()
    process.communicate()


async def test_a_frozen_worker_keeps_its_promises_and_blocks_nobody(
    scratch: Path, neighbour: subprocess.Popen[str]
) -> None:
    neighbour.send_signal(signal.SIGSTOP)

    assert len(await fill(gates_at(scratch))) == 3


async def test_a_dead_worker_promises_nothing(scratch: Path, neighbour: subprocess.Popen[str]) -> None:
    neighbour.kill()
    neighbour.wait()

    assert len(await fill(gates_at(scratch))) == 6
    assert not (scratch / ".reserved" / "neighbour").exists()


def test_a_living_worker_is_never_taken_for_dead_while_it_announces_anew(tmp_path: Path) -> None:
    """Its file is rewritten all the time, longer and shorter; every look finds the one or the other, whole."""
    writer, reader = Reservations(tmp_path, "writer"), Reservations(tmp_path, "reader")
    few = [Load(disk_reserve=1), Load(disk_reserve=2)]
    many = [Load(disk_reserve=10**15 + n, memory_used=n) for n in range(40)]
    writer.announce(few)
    done = threading.Event()

    def announce() -> None:
        while not done.is_set():
            writer.announce(many)
            writer.announce(few)

    thread = threading.Thread(target=announce)
    thread.start()
    try:
        seen = [reader.of_others() for _ in range(500)]
    finally:
        done.set()
        thread.join()

    assert all(loads in (few, many) for loads in seen)
    assert len(seen) == 500


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_of_two_workers_that_decide_at_once_one_gets_the_last_room(
    scratch: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """The second decides while the first is between its two looks, before or after it has announced."""
    large = Kind(kind="export", version="v1", module="m", output_bytes_max=40 * MIB)
    first, second = gates_at(scratch, "w1"), gates_at(scratch, "w2")
    announce = Reservations.announce
    decided: list[Reservation | Refused] = []

    def interleave(self: Reservations, loads: Iterable[Load]) -> None:
        monkeypatch.setattr(Reservations, "announce", announce)
        if moment == "before":
            decided.append(second._reserve(large))
        announce(self, loads)
        if moment == "after":
            decided.append(second._reserve(large))

    monkeypatch.setattr(Reservations, "announce", interleave)
    decided.append(await first.admit(large))

    assert sorted(type(one).__name__ for one in decided) == ["Refused", "Reservation"]
    for taken in decided:
        if isinstance(taken, Reservation):
            taken.release()
    assert len(await fill(gates_at(scratch, "w3"))) == 6, "who was refused promises nothing"


async def test_the_next_job_has_the_room_of_the_one_before_only_while_it_would_be_let_in(
    scratch: Path, neighbour: subprocess.Popen[str]
) -> None:
    """A neighbour's promises count for it, too."""
    kind = Kind(kind="export", version="v1", module="m", output_bytes_max=20 * MIB)
    gates = gates_at(scratch)
    room = await gates.admit(kind)
    assert isinstance(room, Reservation)
    larger = Kind(kind="export", version="v1", module="m", output_bytes_max=4 * GIB)

    assert gates.still_admit(kind, room)
    assert not gates.still_admit(larger, room)


async def test_what_the_job_before_has_left_is_not_counted_for_the_next_one(scratch: Path) -> None:
    """Its folder is empty by then: what the next one may write is promised to it in full."""
    first, second = gates_at(scratch, "w1"), gates_at(scratch, "w2")
    room = await first.admit(Kind(kind="export", version="v1", module="m", output_bytes_max=40 * MIB))
    assert isinstance(room, Reservation)
    room.used(disk_bytes=40 * MIB, memory_bytes=0)

    assert first.still_admit(PREVIEW, room)
    assert len(await fill(second)) == 2


async def test_memory_is_promised_like_disk(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gates_module, "_memory", lambda: {"MemAvailable": 5 * GIB, "MemTotal": 8 * GIB})
    model = Kind(kind="model", version="v1", module="m", output_bytes_max=0, memory_bytes_max=2 * GIB)
    gates = gates_at(scratch)

    assert len(await fill(gates, model)) == 2
    assert "reserves 2 GiB of memory, but 5 GiB are free" in await why_not(gates, model)


async def test_a_store_on_the_scratch_disk_doubles_the_reserve(scratch: Path, tmp_path: Path) -> None:
    gates = Gates(scratch=scratch, store=tmp_path / "not/yet", incarnation="w1", slots=10, disk_free_bytes_min=4 * MIB)

    assert len(await fill(gates)) == 3


async def test_this_machine_tells_its_disk_and_memory(tmp_path: Path) -> None:
    gates = Gates(scratch=tmp_path, store=tmp_path, incarnation="w1", slots=1, disk_free_bytes_min=0)
    tiny = Kind(kind="tiny", version="v1", module="m", output_bytes_max=1, memory_bytes_max=1)

    assert isinstance(await gates.admit(tiny), Reservation)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MiB of its own."""
    mount = tmp_path / "disk"
    mount.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(mount)], check=True)
    try:
        yield mount
    finally:
        subprocess.run(["umount", str(mount)], check=True)


@pytest.mark.needs_root
async def test_a_scratch_disk_that_is_full_closes_the_gate_with_a_sentence(small_disk: Path, tmp_path: Path) -> None:
    gates = Gates(scratch=small_disk, store=tmp_path, incarnation="w1", slots=1, disk_free_bytes_min=0)
    nothing = Kind(kind="nothing", version="v1", module="m", output_bytes_max=0)
    (small_disk / "ballast").write_bytes(bytes(MIB))
    assert "No space left" in await why_not(gates, nothing)

    (small_disk / "ballast").unlink()
    assert isinstance(await gates.admit(nothing), Reservation)
    gates.close()


async def test_where_nothing_can_be_promised_the_gate_is_closed_with_a_sentence(scratch: Path) -> None:
    gates = gates_at(scratch)
    (scratch / ".reserved").rmdir()
    (scratch / ".reserved").touch()

    assert "cannot be reserved" in await why_not(gates)


class ManualClock(SystemClock):
    """A boottime that moves by hand."""

    at_ms = 0

    def boot_ms(self) -> int:
        return ManualClock.at_ms


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    monkeypatch.setattr(ManualClock, "at_ms", 1_000_000)
    system = SystemClock.open_system()
    return ManualClock(system.epoch, system._clock_id, system._offset_ms)


async def test_an_unhealthy_machine_takes_no_work_until_the_probe_is_due_again(
    scratch: Path, tmp_path: Path, clock: ManualClock
) -> None:
    well = tmp_path / "well"
    gates = gates_at(scratch, health=Health(f"test -e '{well}'", clock, ttl_s=30))

    assert await why_not(gates) == "the health probe failed: test exited with 1"
    well.touch()
    ManualClock.at_ms += 29_999
    assert isinstance(await gates.admit(PREVIEW), Refused)
    ManualClock.at_ms += 1
    assert isinstance(await gates.admit(PREVIEW), Reservation)
    well.unlink()
    assert isinstance(await gates.admit(PREVIEW), Reservation)


async def test_nothing_follows_on_a_machine_of_which_nobody_knows_whether_it_is_still_well(
    scratch: Path, clock: ManualClock
) -> None:
    gates = gates_at(scratch, health=Health("true", clock, ttl_s=30))
    room = await gates.admit(PREVIEW)
    assert isinstance(room, Reservation)

    assert gates.still_admit(PREVIEW, room)
    ManualClock.at_ms += 30_000
    assert not gates.still_admit(PREVIEW, room)


async def test_a_health_probe_that_hangs_is_killed_with_its_children(tmp_path: Path, clock: ManualClock) -> None:
    pids = tmp_path / "pids"
    hanging = Health(f"sh -c 'sleep 60 & echo $! > {pids}; wait'", clock, timeout_s=0.5)

    assert await hanging.why_not() == "the health probe failed: sh did not end within 0.5 s and was killed"
    async with asyncio.timeout(5):
        while Path(f"/proc/{pids.read_text().strip()}/cmdline").exists():
            await asyncio.sleep(0.01)


async def test_a_health_probe_that_does_not_exist_is_named(clock: ManualClock) -> None:
    assert await Health("/no/such/probe", clock).why_not() == (
        "the health probe failed: /no/such/probe cannot be started: No such file or directory"
    )


@pytest.mark.parametrize("command", ["", "  ", "echo 'open"])
def test_a_health_command_that_cannot_be_read_is_refused_at_the_start(command: str, clock: ManualClock) -> None:
    with pytest.raises(Invalid):
        Health(command, clock)
