"""The folder of one attempt: its scratch, its inputs as local files, and what it may resume from.

It is named by the token and starts empty for every attempt; whoever finds it later asks the ledger
whether it may go.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from planrun.core.errors import Permanent, StorageError
from planrun.core.messages import Checkpoint
from planrun.folders import remove_folder
from planrun.storage.contract import Store


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
                with source.open("rb"):
                    pass
            except OSError as error:
                raise Permanent(
                    f"input {name}: {source} cannot be read ({error.strerror})", code="input-unreadable"
                ) from None
            suffix = source.suffix if source.suffix[1:].isalnum() and len(source.suffix) <= 10 else ""
            link = self.inputs / name / f"input{suffix.lower()}"
            link.parent.mkdir()
            link.symlink_to(source.resolve())
            linked[name] = link
        return linked

    def restore(self, checkpoint: Checkpoint, store: Store) -> Path:
        """Fetch what an earlier attempt left, verified.

        Raises:
            StorageError: A file is gone or differs from its digest: the attempt starts from the beginning.
        """
        shutil.rmtree(self.resume, ignore_errors=True)
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
