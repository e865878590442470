"""A job's log keeps the first and the last half of its limit, and says what it left out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planrun.worker.joblog import JobLog


def logged(path: Path, pieces: list[bytes], bytes_max: int) -> bytes:
    log = JobLog(str(path), bytes_max)
    for piece in pieces:
        log.write(piece)
    log.close()
    return path.read_bytes() if path.exists() else b""


def test_what_fits_is_kept_as_it_is(tmp_path: Path) -> None:
    pieces = [b"a" * 50, b"b" * 49, b"\n"]

    assert logged(tmp_path / "log", pieces, 100) == b"".join(pieces)


def test_a_long_log_keeps_its_start_and_its_end_by_whole_lines(tmp_path: Path) -> None:
    lines = [f"line {number:05}\n".encode() for number in range(10_000)]
    text = logged(tmp_path / "log", lines, 220)

    assert text.startswith(b"".join(lines[:10]))
    assert text.endswith(b"".join(lines[-10:]))
    assert text.splitlines()[11].decode() == f"… {11 * (10_000 - 20)} bytes left out …"


@given(st.lists(st.binary(max_size=200).map(lambda piece: piece.replace(b"\xe2", b"x")), max_size=60))
def test_nothing_is_lost_uncounted(tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    text = logged(tmp_path_factory.mktemp("log") / "log", pieces, 300)
    head, notice, rest = text.partition("\n… ".encode())
    if not notice:
        assert text == whole
        return
    count, _, tail = rest.partition(" bytes left out …\n".encode())

    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert len(head) + int(count) + len(tail) == len(whole)
    assert len(head) + len(tail) <= 300


def test_a_full_disk_never_breaks_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = JobLog(str(tmp_path / "log"), 100)
    log.write(b"before\n")

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(os, "write", full)
        log.write(b"x" * 1000)
    log.write(b"after\n")
    log.close()

    assert (tmp_path / "log").read_bytes() == "before\nafter\n\n… 1000 bytes left out …\n".encode()


def test_a_log_that_cannot_be_opened_swallows_everything(tmp_path: Path) -> None:
    log = JobLog(str(tmp_path / "no folder" / "log"), 100)
    log.write(os.urandom(1000))
    log.close()
