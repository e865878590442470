"""Carrying a job's checkpoint folder to the store, file by file.

Files that this attempt has stored before, unchanged, are named again and not copied: a long job may
checkpoint often.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from planrun.core.errors import Permanent
from planrun.core.messages import Checkpoint, CheckpointFile
from planrun.folders import files_below
from planrun.storage.contract import Store

FILES_MAX = 10_000
Identity = tuple[str, int, int, int, int]  # of a file, until it is written again


class CheckpointUpload:
    """The checkpoints of one attempt."""

    def __init__(self, store: Store, *, attempt: int, prefix: str, format_name: str, bytes_max: int) -> None:
        """
        Args:
            bytes_max: What a checkpoint may hold, holes of files included.
        """
        self._store = store
        self._bytes_max = bytes_max
        self._attempt = attempt
        self._prefix = prefix
        self._format = format_name
        self._stored: dict[Identity, CheckpointFile] = {}

    def upload(self, folder: Path, seq: int, *, may_go_on: Callable[[], bool]) -> Checkpoint:
        """Store what lies in the folder now.

        Raises:
            Permanent: It holds something that is not a plain file, or too much.
            StorageError, LostLease: As the store says.
        """
        paths = sorted(files_below(folder))
        if len(paths) > FILES_MAX:
            raise Permanent(f"the checkpoint has {len(paths)} files, at most {FILES_MAX} are kept", code="checkpoint")
        size = sum(path.lstat().st_size for path in paths)
        if size > self._bytes_max:
            raise Permanent(f"the checkpoint has {size} bytes, at most {self._bytes_max} are kept", code="checkpoint")
        named = dict(self._file(folder, path, may_go_on) for path in paths)
        self._stored = named  # what has changed since, or has gone, never comes back
        return Checkpoint(attempt=self._attempt, seq=seq, format=self._format, files=tuple(named.values()))

    def _file(self, folder: Path, path: Path, may_go_on: Callable[[], bool]) -> tuple[Identity, CheckpointFile]:
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or not path.is_file():
            raise Permanent(f"the checkpoint holds {name}, which is not a plain file", code="checkpoint")
        try:
            name.encode()
        except UnicodeEncodeError:
            raise Permanent(f"the checkpoint holds {name!r}, a name that is not UTF-8", code="checkpoint") from None
        identity = (name, *_state_of(path))
        known = self._stored.get(identity)
        if known is None:
            stored = self._store.put(self._prefix, path.name, path, may_go_on=may_go_on)
            known = CheckpointFile(name=name, key=stored.key, sha256=stored.sha256, bytes=stored.bytes)
            self._stored[identity] = known
        return identity, known


def _state_of(path: Path) -> tuple[int, int, int, int]:
    """What differs once the file has been written again.

    Flushed first: a store through a memory map changes the times of a clean page alone.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        os.fsync(fd)
        status = os.fstat(fd)
    finally:
        os.close(fd)
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
