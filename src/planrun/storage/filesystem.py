"""Results as files of one folder: immutable, durable, and visible only when complete.

    <root>/<namespace>/jobs/<job>/<attempt>-<token>/<sha256>/<name>    an object, mode 0444
    <root>/.staging/<namespace>/jobs/<job>/<attempt>-<token>/…         its bytes while they are written

Recipe of a put: write the staged file, hashing what is written → fsync it → make the parents →
rename → fsync the parents. Only then may anybody be told. Both folders must be one filesystem.

Empty folders are pruned by whoever empties them, so a folder may vanish between its making and its
use; `_inside` makes it again.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from planrun.core.errors import StorageError
from planrun.core.names import object_key
from planrun.folders import fsync_folder
from planrun.storage.contract import Stored
from planrun.storage.local import chunks_of, in_words
from planrun.storage.rules import ask, check_key, check_prefix
from planrun.trip import trip

T = TypeVar("T")

_STAGING = ".staging"
_OBJECT_MODE = 0o444
_PRUNE_RACES_MAX = 100


class FilesystemStore:
    """A `Store` in one folder of a local disk. Several processes may use it at once.

    Attributes:
        root: The folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()

    def __str__(self) -> str:
        return str(self.root)

    def put(self, prefix: str, name: str, source: Path, *, may_go_on: Callable[[], bool]) -> Stored:
        """See `Store.put`."""
        check_prefix(prefix)
        check_key(f"{prefix}{name}")
        trip("upload:begin")
        folder = self.root / _STAGING / prefix
        with in_words(f"cannot store {name}", self.root), self._pruned(folder):
            staged = _inside(folder, _open_staged)
            try:
                sha256, size = _copy_hashed(source, staged, may_go_on)
                key = object_key(prefix, sha256, name)
                ask(may_go_on)
                trip("upload:before-rename")
                self._publish(staged, self.root / key, size)
            finally:
                staged.unlink(missing_ok=True)
        return Stored(key, sha256, size)

    def head(self, key: str) -> int | None:
        """See `Store.head`."""
        check_key(key)
        with in_words(f"cannot look at {key}", self.root):
            return _size_of(self.root / key)

    def get(self, key: str, target: Path, *, sha256: str, before_chunk: Callable[[], None] = lambda: None) -> None:
        """See `Store.get`. Nothing is left at `target` after an error."""
        check_key(key)
        with in_words(f"cannot copy {key} to {target}", target.parent):
            try:
                with target.open("wb", buffering=0) as out:
                    found, _ = _pour(self.root / key, out.fileno(), before_chunk)
                if found != sha256:
                    raise StorageError(
                        f"{key} is damaged: its digest is {found}, not {sha256}; restore it from a backup"
                    )
            except BaseException:
                target.unlink(missing_ok=True)
                raise

    def local_path(self, key: str) -> Path | None:
        """See `Store.local_path`."""
        return self.root / key if self.head(key) is not None else None

    def put_if_absent(self, key: str, data: bytes) -> bytes:
        """See `Store.put_if_absent`. A hard link fails where a name is taken, and complete bytes alone get one."""
        check_key(key)
        target = self.root / key
        folder = self.root / _STAGING / Path(key).parent

        def link(_folder: Path) -> None:
            with suppress(FileExistsError):
                os.link(staged, target)

        with in_words(f"cannot create {key}", self.root), self._pruned(folder):
            staged = _inside(folder, _open_staged)
            try:
                _write_durably(staged, data)
                _inside(target.parent, link)
                self._fsync_parents(target)  # for a loser, too: the winner may not have come to it yet
                return target.read_bytes()
            finally:
                staged.unlink(missing_ok=True)

    def read(self, key: str) -> bytes | None:
        """See `Store.read`."""
        check_key(key)
        with in_words(f"cannot read {key}", self.root):
            try:
                return (self.root / key).read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                return None

    def url_of(self, key: str, *, ttl_s: float) -> str | None:
        """See `Store.url_of`. None: a path says nothing to anybody elsewhere."""
        check_key(key)
        return None

    def copy_public(self, key: str, name: str) -> bool:
        """See `Store.copy_public`. False: what people may edit is no object."""
        check_key(key)
        check_key(name)
        return False

    def delete(self, key: str) -> None:
        """Remove an object or an unfinished upload, and the folders that this leaves empty."""
        check_key(key.removeprefix(f"{_STAGING}/"))
        path = self.root / key
        with in_words(f"cannot delete {key}", self.root):
            path.unlink(missing_ok=True)
            with suppress(FileNotFoundError):  # somebody else pruned that one, too
                fsync_folder(self._prune(path.parent))

    def keys(self, prefix: str) -> Iterator[str]:
        """See `Store.keys`. Unfinished uploads come as keys below `.staging/`, which only `delete` takes.

        An empty prefix lists the whole store.
        """
        if prefix:
            check_prefix(prefix)
        with in_words(f"cannot list {prefix or 'the store'}", self.root):
            yield from self._walk(self.root / prefix)
            if prefix:
                yield from self._walk(self.root / _STAGING / prefix)

    def _publish(self, staged: Path, target: Path, size: int) -> None:
        """Give complete, durable bytes their name. An object that is there already is never touched."""

        def rename(_folder: Path) -> bool:
            if not staged.exists():
                raise StorageError(f"{staged} was removed before it was complete: its attempt was given up")
            there = _size_of(target)
            if there is None:
                staged.rename(target)
                return True
            if there != size:
                raise StorageError(f"{target} has {there} bytes instead of {size}: somebody changed it; remove it")
            return False

        renamed = False
        try:
            renamed = _inside(target.parent, rename)
            self._fsync_parents(target)
        except BaseException:
            if renamed:  # its name may be lost, so a later put must not take it for stored
                target.unlink(missing_ok=True)
            self._prune(target.parent)
            raise

    def _fsync_parents(self, target: Path) -> None:
        """Make a name durable. All parents, not only new ones: their maker may not have come to its own fsync yet."""
        for folder in target.parents:
            fsync_folder(folder)
            if folder == self.root:
                break
        with suppress(PermissionError):  # then the root stood before us, and its name is durable
            fsync_folder(self.root.parent)

    @contextmanager
    def _pruned(self, folder: Path) -> Iterator[None]:
        try:
            yield
        finally:
            self._prune(folder)

    def _prune(self, folder: Path) -> Path:
        """Remove empty folders upwards. Returns the first that stays."""
        while folder != self.root:
            try:
                folder.rmdir()
            except FileNotFoundError:
                pass
            except OSError:
                return folder
            folder = folder.parent
        return folder

    def _walk(self, folder: Path) -> Iterator[str]:
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except FileNotFoundError:
            return
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from self._walk(Path(entry.path))
            else:
                yield Path(entry.path).relative_to(self.root).as_posix()


def _open_staged(folder: Path) -> Path:
    """A fresh, empty file. What an earlier try left behind is never taken up again."""
    fd, path = tempfile.mkstemp(dir=folder)
    os.close(fd)
    return Path(path)


def _write_durably(staged: Path, data: bytes) -> None:
    with staged.open("wb") as out:
        out.write(data)
        out.flush()
        os.fchmod(out.fileno(), _OBJECT_MODE)
        os.fsync(out.fileno())


def _copy_hashed(source: Path, staged: Path, may_go_on: Callable[[], bool]) -> tuple[str, int]:
    """Copy, and make the copy durable. Returns digest and size of the bytes that were written."""
    chunks = 0

    def before_chunk() -> None:
        nonlocal chunks
        if chunks == 1:
            trip("upload:chunk")
        chunks += 1
        ask(may_go_on)

    # A failed fsync drops the dirty pages: a second one on the same file would lie. The copy is thrown away instead.
    with staged.open("wb", buffering=0) as out:
        written = _pour(source, out.fileno(), before_chunk)
        os.fchmod(out.fileno(), _OBJECT_MODE)
        os.fsync(out.fileno())
    return written


def _pour(source: Path, out: int, before_chunk: Callable[[], None]) -> tuple[str, int]:
    """Copy in chunks. The digest is of what went out, so a source that changes meanwhile cannot make it lie."""
    digest, size = hashlib.sha256(), 0
    for chunk in chunks_of(source, before_chunk):
        digest.update(chunk)
        size += len(chunk)
        left = chunk
        while left:
            left = left[os.write(out, left) :]
    return digest.hexdigest(), size


def _inside(folder: Path, act: Callable[[Path], T]) -> T:
    """Make a folder and use it, again if another process pruned it in between."""
    for _ in range(_PRUNE_RACES_MAX):
        with suppress(FileNotFoundError, FileExistsError):  # the latter: it was there, and no folder a moment later
            folder.mkdir(parents=True, exist_ok=True)
            return act(folder)
    raise StorageError(f"{folder} cannot be used: a file is in its way, or something else cleans up there")


def _size_of(path: Path) -> int | None:
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None
