"""Carrying a job's checkpoint folder to the store, file by file.

Files that this attempt has stored before, unchanged, are named again and not copied: a long job may
checkpoint often.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from planrun.core.errors import Permanent
from planrun.core.messages import Checkpoint, CheckpointFile
from planrun.storage.contract import Store

FILES_MAX = 10_000


class CheckpointUpload:
    """The checkpoints of one attempt."""

    def __init__(self, store: Store, *, attempt: int, prefix: str, format_name: str) -> None:
        self._store = store
        self._attempt = attempt
        self._prefix = prefix
        self._format = format_name
        self._stored: dict[tuple[str, int, int, int], CheckpointFile] = {}

    def upload(self, folder: Path, seq: int, *, may_go_on: Callable[[], bool]) -> Checkpoint:
        """Store what lies in the folder now.

        Raises:
            Permanent: It holds something that is not a plain file, or too many.
            StorageError, LostLease: As the store says.
        """
        paths = sorted(path for path in folder.rglob("*") if not path.is_dir() or path.is_symlink())
        if len(paths) > FILES_MAX:
            raise Permanent(f"the checkpoint has {len(paths)} files, at most {FILES_MAX} are kept", code="checkpoint")
        files = [self._file(folder, path, may_go_on) for path in paths]
        return Checkpoint(attempt=self._attempt, seq=seq, format=self._format, files=tuple(files))

    def _file(self, folder: Path, path: Path, may_go_on: Callable[[], bool]) -> CheckpointFile:
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or not path.is_file():
            raise Permanent(f"the checkpoint holds {name}, which is not a plain file", code="checkpoint")
        stat = path.stat()
        identity = (name, stat.st_ino, stat.st_size, stat.st_mtime_ns)
        known = self._stored.get(identity)
        if known is None:
            stored = self._store.put(self._prefix, path.name, path, may_go_on=may_go_on)
            known = CheckpointFile(name=name, key=stored.key, sha256=stored.sha256, bytes=stored.bytes)
            self._stored[identity] = known
        return known
