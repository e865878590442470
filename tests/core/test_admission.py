"""Who may start now, by numbers alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planrun.core.admission import Admitted, Load, Refused, Room, admit, load_of, shown
from planrun.core.kinds import GIB, MIB, Kind

PREVIEW = Kind(kind="preview", version="v1", module="m", output_bytes_max=2 * GIB)
ROOM = Room(
    slots_free=1,
    disk_free=10 * GIB,
    disk_total=100 * GIB,
    disk_floor=1 * GIB,
    memory_free=8 * GIB,
    memory_total=16 * GIB,
    store_shares_disk=False,
)


def test_a_job_fits_an_idle_machine_and_says_what_it_takes() -> None:
    assert admit(PREVIEW, [], ROOM) == Admitted(Load(disk_reserve=2 * GIB))


def test_without_a_free_slot_nothing_is_taken() -> None:
    refused = admit(PREVIEW, [], replace(ROOM, slots_free=0))

    assert refused == Refused("all slots of this worker are taken")


@pytest.mark.parametrize(("spare", "fits"), [(0, True), (-1, False)])
def test_the_disk_rule_holds_to_the_byte(spare: int, fits: bool) -> None:
    """Floor 1 GiB, new job 2 GiB, running jobs may still write 3 GiB and 0."""
    running = [Load(disk_reserve=4 * GIB, disk_used=1 * GIB), Load(disk_reserve=1 * GIB, disk_used=5 * GIB)]

    decided = admit(PREVIEW, running, replace(ROOM, disk_free=6 * GIB + spare))

    assert isinstance(decided, Admitted) is fits


def test_a_job_takes_twice_its_output_where_the_store_is_on_the_same_disk() -> None:
    shared = replace(ROOM, store_shares_disk=True, disk_free=5 * GIB)

    assert admit(PREVIEW, [], shared) == Admitted(Load(disk_reserve=4 * GIB))
    assert isinstance(admit(PREVIEW, [], replace(shared, disk_free=5 * GIB - 1)), Refused)


def test_a_refusal_for_disk_names_every_number() -> None:
    refused = admit(PREVIEW, [Load(disk_reserve=3 * GIB, disk_used=GIB // 2)], replace(ROOM, disk_free=5 * GIB))

    assert refused == Refused(
        "preview v1 reserves 2 GiB of scratch disk, but 5 GiB are free, "
        "of which 2.5 GiB are promised to 1 running job and 1 GiB stay free"
    )


def test_a_job_larger_than_the_disk_is_refused_as_never_possible() -> None:
    refused = admit(PREVIEW, [], replace(ROOM, disk_total=2 * GIB, disk_free=2 * GIB))

    assert isinstance(refused, Refused)
    assert refused.why.endswith("but that disk has 2 GiB in all, 1 GiB of it kept free: it can never run here")


@pytest.mark.parametrize(("spare", "fits"), [(0, True), (-1, False)])
def test_the_memory_rule_holds_to_the_byte(spare: int, fits: bool) -> None:
    hungry = replace(PREVIEW, memory_bytes_max=3 * GIB)
    running = [Load(disk_reserve=0, memory_reserve=2 * GIB, memory_used=1 * GIB)]

    decided = admit(hungry, running, replace(ROOM, memory_free=4 * GIB + spare))

    assert isinstance(decided, Admitted) is fits


def test_a_kind_without_a_memory_limit_asks_for_none() -> None:
    assert isinstance(admit(PREVIEW, [], replace(ROOM, memory_free=0)), Admitted)


def test_a_kind_that_needs_more_memory_than_there_is_is_refused_as_never_possible() -> None:
    refused = admit(replace(PREVIEW, memory_bytes_max=17 * GIB), [], ROOM)

    assert refused == Refused(
        "preview v1 reserves 17 GiB of memory, but this machine has 16 GiB in all: it can never run here"
    )


loads = st.builds(
    Load,
    disk_reserve=st.integers(0, 4 * GIB),
    disk_used=st.integers(0, 6 * GIB),
    memory_reserve=st.integers(0, 4 * GIB),
    memory_used=st.integers(0, 6 * GIB),
)


@given(
    running=st.lists(loads, max_size=5),
    free=st.integers(0, 40 * GIB),
    output=st.integers(0, 8 * GIB),
    shared=st.booleans(),
)
def test_admitted_jobs_can_all_fill_their_output_at_once(
    running: list[Load], free: int, output: int, shared: bool
) -> None:
    room = replace(ROOM, disk_free=free, store_shares_disk=shared)
    kind = replace(PREVIEW, output_bytes_max=output)

    decided = admit(kind, running, room)

    worst = sum(load.disk_outstanding for load in running) + load_of(kind, store_shares_disk=shared).disk_reserve
    assert isinstance(decided, Admitted) == (free - worst >= room.disk_floor)


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1023 B"), (64 * MIB, "64 MiB"), (3 * GIB // 2, "1.5 GiB")]
)
def test_bytes_are_shown_as_people_write_them(count: int, text: str) -> None:
    assert shown(count) == text
