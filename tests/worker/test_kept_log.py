"""What a job of a fleet printed: moved to the store, whole or cut, and never at the cost of the attempt."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from planrun.core.errors import StorageError
from planrun.storage.filesystem import FilesystemStore
from planrun.worker import kept_log
from planrun.worker.kept_log import LiveLog, keep_log

pytestmark = pytest.mark.anyio

PREFIX = "default/jobs/j1/1-10000000001/"
KEY = f"{PREFIX}log"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def store(tmp_path: Path) -> FilesystemStore:
    return FilesystemStore(tmp_path / "store")


@pytest.fixture
def printed(tmp_path: Path) -> Callable[[bytes], Path]:
    def printed(text: bytes) -> Path:
        path = tmp_path / "logs" / "j1" / "1.log"
        path.parent.mkdir(parents=True)
        path.write_bytes(text)
        return path

    return printed


async def test_a_log_is_moved(store: FilesystemStore, printed: Callable[[bytes], Path]) -> None:
    path = printed(b"frame 1\n")

    await keep_log(store, PREFIX, path)

    assert store.read(KEY) == b"frame 1\n"
    assert not path.parent.exists()


async def test_of_a_long_log_the_end_is_kept(
    store: FilesystemStore, printed: Callable[[bytes], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_log, "KEPT_BYTES_MAX", 4)

    await keep_log(store, PREFIX, printed(b"0123456789"))

    assert (store.read(KEY) or b"").decode() == "… 6 bytes left out …\n6789"


async def test_a_job_that_printed_nothing_leaves_nothing(store: FilesystemStore, tmp_path: Path) -> None:
    await keep_log(store, PREFIX, tmp_path / "none.log")

    assert list(store.keys(PREFIX)) == []


async def test_a_store_that_refuses_costs_nothing_but_a_warning(
    store: FilesystemStore,
    printed: Callable[[bytes], Path],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refuse(key: str, data: bytes) -> bytes:
        raise StorageError("403")

    monkeypatch.setattr(store, "put_if_absent", refuse)
    path = printed(b"frame 1\n")

    await keep_log(store, PREFIX, path)

    assert path.read_bytes() == b"frame 1\n"
    assert f"stays in {path}: 403" in caplog.text


def pieces(store: FilesystemStore) -> dict[str, bytes | None]:
    return {key.removeprefix(f"{PREFIX}live/"): store.read(key) for key in sorted(store.keys(f"{PREFIX}live/"))}


def test_while_a_job_runs_its_log_is_shown_piece_by_piece_up_to_what_is_kept_of_a_log(
    store: FilesystemStore, printed: Callable[[bytes], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_log, "KEPT_BYTES_MAX", 20)
    path = printed(b"frame 1\n")
    live = LiveLog(store, PREFIX, path)
    for text in (b"", b"frame 2\n", b"", b"frame 3\n", b"frame 4\n"):
        live.grow()
        with path.open("ab") as file:
            file.write(text)
    live.grow()

    assert pieces(store) == {"000000000": b"frame 1\n", "000000008": b"frame 2\n", "000000016": b"fram"}


def test_a_log_that_was_cut_to_its_limit_goes_on_at_its_end(
    store: FilesystemStore, printed: Callable[[bytes], Path]
) -> None:
    path = printed(b"frame 1\nframe 2\n")
    live = LiveLog(store, PREFIX, path)
    live.grow()
    path.write_bytes(b"cut\n")
    live.grow()
    path.write_bytes(b"cut\nframe 3\n")
    live.grow()

    assert pieces(store) == {"000000000": b"frame 1\nframe 2\n", "000000016": b"frame 3\n"}


def test_a_piece_whose_answer_got_lost_is_neither_repeated_nor_left_out(
    store: FilesystemStore, printed: Callable[[bytes], Path]
) -> None:
    path = printed(b"frame 1\nframe 2\n")
    store.put_if_absent(f"{PREFIX}live/000000000", b"frame 1\n")  # by the call before
    live = LiveLog(store, PREFIX, path)
    live.grow()
    live.grow()

    assert pieces(store) == {"000000000": b"frame 1\n", "000000008": b"frame 2\n"}


def test_a_job_that_has_printed_nothing_yet_shows_nothing(store: FilesystemStore, tmp_path: Path) -> None:
    LiveLog(store, PREFIX, tmp_path / "none.log").grow()

    assert pieces(store) == {}
