"""What every store must do: one class, run by each backend's own test module."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from planrun.core.errors import LostLease, StorageError
from planrun.core.names import attempt_prefix
from planrun.storage.contract import Store

MIB = 1024 * 1024
PREFIX = attempt_prefix("media", "job-1", 1, 0x10000000021)
LATER = attempt_prefix("media", "job-1", 2, 0x10000000022)


def yes() -> bool:
    return True


def no_from(asked: int) -> Callable[[], bool]:
    """Says yes, until it is asked for the n-th time."""
    answers = iter(range(1, asked))
    return lambda: next(answers, None) is not None


class StoreContract:
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        raise NotImplementedError("each backend yields an empty store")

    @pytest.fixture
    def source(self, tmp_path: Path) -> Path:
        """Three chunks and a bit."""
        path = tmp_path / "out.mp4"
        path.write_bytes(bytes(range(256)) * 4096 * 3 + b"end")
        return path

    def test_a_stored_file_comes_back_with_its_digest_and_size(
        self, store: Store, source: Path, tmp_path: Path
    ) -> None:
        stored = store.put(PREFIX, "out.mp4", source, may_go_on=yes)
        store.get(stored.key, tmp_path / "back", sha256=stored.sha256)

        data = source.read_bytes()
        assert (tmp_path / "back").read_bytes() == data
        assert stored.sha256 == hashlib.sha256(data).hexdigest()
        assert stored.bytes == len(data) == store.head(stored.key)
        assert stored.key == f"{PREFIX}{stored.sha256}/out.mp4"

    def test_an_empty_file_can_be_stored(self, store: Store, tmp_path: Path) -> None:
        (tmp_path / "empty").touch()

        stored = store.put(PREFIX, "empty", tmp_path / "empty", may_go_on=yes)

        assert store.head(stored.key) == stored.bytes == 0

    def test_a_file_below_a_folder_keeps_its_path(self, store: Store, source: Path) -> None:
        stored = store.put(PREFIX, "segments/1/.part", source, may_go_on=yes)

        assert stored.key.endswith("/segments/1/.part")
        assert list(store.keys(PREFIX)) == [stored.key]

    def test_the_same_put_again_gives_the_same_object(self, store: Store, source: Path) -> None:
        """D13: a repeated upload of one attempt writes equal bytes under an equal key."""
        first = store.put(PREFIX, "out.mp4", source, may_go_on=yes)
        again = store.put(PREFIX, "out.mp4", source, may_go_on=yes)

        assert first == again
        assert list(store.keys(PREFIX)) == [first.key]

    def test_two_attempts_never_share_an_object(self, store: Store, source: Path) -> None:
        """D12: a late attempt with other bytes, or with the same ones, touches nobody else's."""
        winner = store.put(LATER, "out.mp4", source, may_go_on=yes)
        loser = store.put(PREFIX, "out.mp4", source, may_go_on=yes)
        store.delete(loser.key)

        assert winner.key != loser.key
        assert store.head(winner.key) == winner.bytes

    def test_a_lost_lease_stops_the_upload_at_any_question_and_leaves_nothing(self, store: Store, source: Path) -> None:
        """Asked before each of the four chunks, at the end of the file, and before the object appears."""
        asked = 0

        def count() -> bool:
            nonlocal asked
            asked += 1
            return True

        store.delete(store.put(PREFIX, "out.mp4", source, may_go_on=count).key)
        assert asked >= 6
        for question in range(1, asked + 1):
            with pytest.raises(LostLease):
                store.put(PREFIX, "out.mp4", source, may_go_on=no_from(question))

            assert list(store.keys(PREFIX)) == []

    def test_the_last_question_comes_before_the_object_appears(self, store: Store, source: Path) -> None:
        seen: list[int] = []

        def look() -> bool:
            seen.append(len([key for key in store.keys(PREFIX) if not key.startswith(".")]))
            return True

        store.put(PREFIX, "out.mp4", source, may_go_on=look)

        assert len(seen) >= 6
        assert set(seen) == {0}

    @pytest.mark.parametrize(
        "name", ["two words.mp4", "Füße-動画.mp4", "a+b%20c&d=e?f#g.mp4", "x" * 200, "it's (1) [2] {3} ~!@$^;,`"]
    )
    def test_an_odd_name_is_kept_as_it_is(self, store: Store, tmp_path: Path, name: str) -> None:
        (tmp_path / "source").write_bytes(b"odd")

        stored = store.put(PREFIX, name, tmp_path / "source", may_go_on=yes)
        store.get(stored.key, tmp_path / "back", sha256=stored.sha256)

        assert stored.key.endswith(f"/{name}")
        assert list(store.keys(PREFIX)) == [stored.key]
        assert (tmp_path / "back").read_bytes() == b"odd"
        store.delete(stored.key)
        assert list(store.keys(PREFIX)) == []

    def test_a_large_file_comes_back(self, store: Store, tmp_path: Path) -> None:
        """Of several parts, where a store takes parts."""
        with (tmp_path / "large").open("wb") as file:
            for part in range(100):
                file.write(bytes([part]) * MIB)

        stored = store.put(PREFIX, "large", tmp_path / "large", may_go_on=yes)
        store.get(stored.key, tmp_path / "back", sha256=stored.sha256)

        assert stored.bytes == store.head(stored.key) == 100 * MIB == (tmp_path / "back").stat().st_size

    def test_a_copy_that_is_ended_leaves_no_file(self, store: Store, source: Path, tmp_path: Path) -> None:
        stored = store.put(PREFIX, "out.mp4", source, may_go_on=yes)

        def end() -> None:
            raise OSError("enough")

        with pytest.raises(StorageError):
            store.get(stored.key, tmp_path / "back", sha256=stored.sha256, before_chunk=end)

        assert not (tmp_path / "back").exists()

    def test_a_late_upload_after_the_collection_touches_nobody_and_is_collected_in_turn(
        self, store: Store, source: Path
    ) -> None:
        """A zombie may go on for days: the collector comes back to its prefix."""
        winner = store.put(LATER, "out.mp4", source, may_go_on=yes)
        store.delete(store.put(PREFIX, "out.mp4", source, may_go_on=yes).key)
        late = store.put(PREFIX, "out.mp4", source, may_go_on=yes)

        assert list(store.keys(PREFIX)) == [late.key]
        store.delete(late.key)
        assert list(store.keys("")) == [winner.key]

    def test_keys_are_those_of_one_attempt(self, store: Store, source: Path) -> None:
        mine = {store.put(PREFIX, name, source, may_go_on=yes).key for name in ("a", "b")}
        store.put(LATER, "a", source, may_go_on=yes)

        assert set(store.keys(PREFIX)) == mine
        assert len(list(store.keys(""))) == 3

    def test_deleting_twice_is_no_error(self, store: Store, source: Path) -> None:
        stored = store.put(PREFIX, "out.mp4", source, may_go_on=yes)
        store.delete(stored.key)
        store.delete(stored.key)

        assert store.head(stored.key) is None
        assert store.local_path(stored.key) is None

    def test_a_wrong_digest_is_told_and_leaves_no_file(self, store: Store, source: Path, tmp_path: Path) -> None:
        stored = store.put(PREFIX, "out.mp4", source, may_go_on=yes)

        with pytest.raises(StorageError, match="damaged"):
            store.get(stored.key, tmp_path / "back", sha256="0" * 64)

        assert not (tmp_path / "back").exists()

    def test_an_unknown_object_is_a_storage_error(self, store: Store, tmp_path: Path) -> None:
        with pytest.raises(StorageError):
            store.get(f"{PREFIX}{'0' * 64}/none", tmp_path / "back", sha256="0" * 64)

        assert not (tmp_path / "back").exists()

    @pytest.mark.parametrize("key", ["../x", "/etc/passwd", "a/../../x", "a//b", "a/./b", "", ".staging/x", "a/\0"])
    def test_a_key_that_leads_elsewhere_is_refused(self, store: Store, source: Path, key: str) -> None:
        with pytest.raises(StorageError, match="no object key"):
            store.head(key)
        with pytest.raises(StorageError, match="no object key"):
            store.put(f"{key}/", "out.mp4", source, may_go_on=yes)
        with pytest.raises(StorageError, match="no object key"):
            list(store.keys(f"{key}/"))
        with pytest.raises(StorageError, match="no object key"):
            store.put_if_absent(key, b"")
        with pytest.raises(StorageError, match="no object key"):
            store.read(key)

    def test_a_prefix_without_its_slash_is_refused(self, store: Store, source: Path) -> None:
        """'1-2' is also the beginning of '1-21'."""
        with pytest.raises(StorageError, match="must end"):
            store.put(PREFIX[:-1], "out.mp4", source, may_go_on=yes)
        with pytest.raises(StorageError, match="must end"):
            list(store.keys(PREFIX[:-1]))

    def test_the_first_to_create_a_small_object_wins_and_all_get_its_bytes(self, store: Store) -> None:
        assert store.read("media/ended/job-1.json") is None

        assert store.put_if_absent("media/ended/job-1.json", b"first") == b"first"
        assert store.put_if_absent("media/ended/job-1.json", b"second") == b"first"
        assert store.put_if_absent("media/ended/job-1.json", b"first") == b"first"

        assert store.read("media/ended/job-1.json") == b"first"
        assert list(store.keys("")) == ["media/ended/job-1.json"]

    def test_of_eight_that_create_one_object_at_once_one_wins(self, store: Store) -> None:
        for turn in range(4):
            with ThreadPoolExecutor(8) as pool:
                got = list(pool.map(lambda n, key=f"media/race/{turn}": store.put_if_absent(key, b"%d" % n), range(8)))

            assert set(got) == {store.read(f"media/race/{turn}")}

    def test_a_small_object_can_be_empty_and_deleted_and_made_anew(self, store: Store) -> None:
        assert store.put_if_absent("note", b"") == store.read("note") == b""
        store.delete("note")

        assert store.read("note") is None
        assert store.put_if_absent("note", b"new") == b"new"

    def test_a_missing_source_is_a_storage_error(self, store: Store, tmp_path: Path) -> None:
        with pytest.raises(StorageError, match=r"missing\.mp4"):
            store.put(PREFIX, "out.mp4", tmp_path / "missing.mp4", may_go_on=yes)

        assert list(store.keys("")) == []
