"""The one answer of an ended job, as the application sees it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from planrun.core.errors import ResultGone, StorageError
from planrun.core.life import Reason, State
from planrun.core.messages import Failure, Output, Result
from planrun.storage.contract import Store


@dataclass(frozen=True, slots=True)
class OutputFile:
    """One kept file. Its bytes never change.

    Attributes:
        key: Its name in the store.
        sha256: Hex digest of the bytes.
        bytes: Its size.
    """

    key: str
    sha256: str
    bytes: int
    _path: Path | None = field(repr=False)
    _store: Store = field(repr=False, compare=False)

    @property
    def path(self) -> Path:
        """Where this box can read it. Read or copy it; never write to it.

        Raises:
            StorageError: The file is not on this box, or no longer kept.
        """
        if self._path is None:
            raise StorageError(
                f"{self.key} cannot be read on this box: it is elsewhere, or no longer kept; save() fetches a copy"
            )
        return self._path

    def save(self, target: Path) -> None:
        """Copy it to a local file, verified against its digest; there is the whole file at once, or an error.

        Blocks as long as that takes.

        Raises:
            StorageError: The store does not answer, or no longer has it; or it cannot be written there.
        """
        try:
            # A folder of this call's own: whoever saves the same there meanwhile writes to another file.
            with tempfile.TemporaryDirectory(prefix=".planrun-", dir=target.parent) as folder:
                part = Path(folder) / target.name
                self._store.get(self.key, part, sha256=self.sha256)
                part.rename(target)
        except OSError as error:
            raise StorageError(f"{target} cannot be written: {error.strerror}; choose another place") from None

    def link(self, *, ttl_s: float) -> str | None:
        """An address at which anybody may read it for so many seconds; None: its store has none.

        Raises:
            StorageError: The store does not answer.
            ResultGone: It no longer has it.
        """
        link = self._store.url_of(self.key, ttl_s=ttl_s)
        if link is not None and self._store.head(self.key) is None:
            raise ResultGone(f"{self.key} is no longer kept; submit the job again")
        return link


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How a job ended: the same for everyone who asks, for ever.

    Attributes:
        state: `finished`, `failed` or `canceled`.
        reason: Why it failed; None unless it did.
        attempt: The attempt that ended it.
        outputs: The kept files, by the names that the job gave them.
        value: The JSON value that the job returned.
        error: What went wrong: message, code and the last lines that were printed. None if it finished.
    """

    job_id: str
    state: State
    reason: Reason | None
    attempt: int
    outputs: Mapping[str, OutputFile]
    value: Any
    error: Failure | None

    @property
    def ok(self) -> bool:
        """The job finished."""
        return self.state is State.FINISHED

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "job_id": self.job_id,
            "state": self.state.value,
            "ok": self.ok,
            "reason": None if self.reason is None else self.reason.value,
            "attempt": self.attempt,
            "outputs": {
                name: {
                    "path": None if output._path is None else str(output._path),
                    "key": output.key,
                    "sha256": output.sha256,
                    "bytes": output.bytes,
                }
                for name, output in self.outputs.items()
            },
            "value": self.value,
            "error": None
            if self.error is None
            else {"message": self.error.message, "code": self.error.code, "tail": self.error.tail},
        }


def answer_of(result: Result, store: Store) -> Answer:
    """The stored result, with its files where this box can read them."""
    return Answer(
        job_id=result.job_id,
        state=result.state,
        reason=result.reason,
        attempt=result.attempt,
        outputs=MappingProxyType({output.name: _file_of(output, store) for output in result.outputs}),
        value=result.value,
        error=result.error,
    )


def _file_of(output: Output, store: Store) -> OutputFile:
    return OutputFile(output.key, output.sha256, output.bytes, store.local_path(output.key), store)
