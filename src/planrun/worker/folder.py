"""The folder of one attempt: its scratch, its inputs as local files, and what it may resume from.

It is named by the token and starts empty for every attempt; whoever finds it later asks the ledger
whether it may go.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from planrun.core.errors import Permanent, StorageError
from planrun.core.messages import Checkpoint
from planrun.folders import remove_folder
from planrun.storage.contract import Store

SUFFIX_LENGTH_MAX = 10


class AttemptFolder:
    """`<scratch root>/<token hex>/` with `scratch/` (the job's own), `inputs/` and `resume/`."""

    def __init__(self, root: Path, token: int) -> None:
        self.path = root / f"{token:x}"
        self.scratch = self.path / "scratch"
        self.inputs = self.path / "inputs"
        self.resume = self.path / "resume"

    def create(self) -> None:
        """Start empty, whatever lay there."""
        self.remove()
        self.scratch.mkdir(parents=True)
        self.inputs.mkdir()

    def link_inputs(self, inputs: Mapping[str, str]) -> dict[str, Path]:
        """Put every input under a safe name of its own, so that no odd file name ever reaches a command line.

        Raises:
            Permanent: An input is gone, or is not a file that this worker may read.
        """
        linked = {}
        for name, uri in inputs.items():
            source = Path(uri.removeprefix("file://"))
            try:
                _check_input(source)
            except OSError as error:
                raise Permanent(
                    f"input {name}: {source} cannot be read ({error.strerror})", code="input-unreadable"
                ) from None
            link = self.inputs / name / f"input{plain_suffix(source).lower()}"
            link.parent.mkdir()
            link.symlink_to(source.resolve())
            linked[name] = link
        return linked

    def restore(self, checkpoint: Checkpoint, store: Store) -> Path:
        """Fetch what an earlier attempt left, verified.

        Raises:
            StorageError: A file is gone or differs from its digest: the attempt starts from the beginning.
        """
        remove_folder(self.resume)
        for file in checkpoint.files:
            target = self.resume / file.name
            if not target.resolve().is_relative_to(self.resume.resolve()):
                raise StorageError(f"the checkpoint names a file outside its folder: {file.name}")
            target.parent.mkdir(parents=True, exist_ok=True)
            store.get(file.key, target, sha256=file.sha256)
            target.chmod(0o444)
        self.resume.mkdir(exist_ok=True)
        return self.resume

    def remove(self) -> None:
        """Remove everything. What cannot be removed now is collected later."""
        with suppress(OSError):
            remove_folder(self.path)


def plain_suffix(path: Path) -> str:
    """The suffix of a file if it is an ordinary one: no other reaches a command line or an object's key."""
    suffix = path.suffix
    return suffix if suffix[1:].isalnum() and suffix.isascii() and len(suffix) <= SUFFIX_LENGTH_MAX else ""


def _check_input(source: Path) -> None:
    """It may have been replaced since it was submitted; opening a pipe would wait for somebody to write.

    Raises:
        OSError: Not a file that can be read.
    """
    fd = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
    finally:
        os.close(fd)
