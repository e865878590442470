"""The clocks: boottime for leases, with its boot's identity, whatever time namespace a process lives in."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from planrun.clock import SystemClock


def timens(monkeypatch: pytest.MonkeyPatch, text: str | None) -> None:
    """Pretend that the kernel reports these offsets of the time namespace; None: it has none."""
    real = Path.read_text

    def read_text(path: Path, *args: object) -> str:
        if str(path) != "/proc/self/timens_offsets":
            return real(path)
        if text is None:
            raise FileNotFoundError(path)
        return text

    monkeypatch.setattr(Path, "read_text", read_text)


def test_the_epoch_is_the_identity_of_this_boot() -> None:
    boot_id = Path("/proc/sys/kernel/random/boot_id")
    if not boot_id.exists():
        pytest.skip("this system does not tell its boot id")

    assert SystemClock.open_system().epoch == boot_id.read_text().strip()


def test_all_three_times_come_with_one_reading() -> None:
    clock = SystemClock.open_system()

    before, instant, after = clock.boot_ms(), clock.now(), clock.boot_ms()

    assert before <= instant.boot_ms <= after
    assert instant.epoch == clock.epoch
    assert abs(instant.wall_ms - time.time() * 1000) < 60_000


def test_boottime_is_the_clock_that_counts_the_machines_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def read(clock_id: int) -> int:
        asked.append(clock_id)
        return 5_000_999_999

    clock = SystemClock.open_system()
    monkeypatch.setattr(time, "clock_gettime_ns", read)
    timens(monkeypatch, None)

    assert clock.boot_ms() + clock._offset_ms == 5_000
    assert asked == [time.CLOCK_BOOTTIME]


@pytest.mark.parametrize(
    ("offsets", "offset_ms"),
    [
        ("monotonic 0 0\nboottime 0 0\n", 0),
        ("monotonic 7 0\nboottime 86400 500000000\n", 86_400_500),
        ("monotonic 0 0\nboottime -10 0\n", -10_000),
        (None, 0),
    ],
)
def test_two_time_namespaces_of_one_boot_agree(
    monkeypatch: pytest.MonkeyPatch, offsets: str | None, offset_ms: int
) -> None:
    """What the namespace adds to boottime is taken out again."""
    timens(monkeypatch, offsets)
    monkeypatch.setattr(time, "clock_gettime_ns", lambda _: (1_000_000 + offset_ms) * 1_000_000)

    assert SystemClock.open_system().boot_ms() == 1_000_000


def test_a_moved_wall_clock_does_not_move_boottime(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SystemClock.open_system()
    monkeypatch.setattr(time, "time_ns", lambda: 0)

    before, instant, after = clock.boot_ms(), clock.now(), clock.boot_ms()

    assert instant.wall_ms == 0
    assert before <= instant.boot_ms <= after


def test_ids_are_fresh_and_32_hex_digits() -> None:
    clock = SystemClock.open_system()
    ids = {clock.new_id() for _ in range(1000)}

    assert len(ids) == 1000
    assert all(len(text) == 32 and int(text, 16) >= 0 for text in ids)
