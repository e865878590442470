"""Uploaded clips: one folder each, complete or not there at all.

A clip has two names. The owner's is a secret in the address of the page that the upload leads to; the shared one is
made from it, one way, and names the folder. Whoever has the shared one can watch; only the owner can cancel.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import anyio

TITLE_CHARS_MAX = 120
_SHARED = re.compile(r"[0-9a-f]{32}")
_UNFINISHED = "unfinished-"


class Refused(Exception):
    """An upload that was not taken; nothing of it is left. The text is for the person who sent it.

    Attributes:
        status: The HTTP status that says the same.
    """

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Clip:
    """One uploaded file.

    Attributes:
        shared: Its public name.
        title: What it was called where it came from.
        video: The file. It never changes.
        is_owners: It was found by the owner's name.
    """

    shared: str
    title: str
    video: Path
    is_owners: bool


def shared_name(owners: str) -> str:
    """The public name that belongs to an owner's."""
    return hashlib.sha256(owners.encode()).hexdigest()[:32]


class Uploads:
    """The clips in one folder, which is made. One server at a time: what one that died was taking is removed here.

    Args:
        bytes_max: Larger uploads are refused.
    """

    def __init__(self, folder: Path, *, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob(f"{_UNFINISHED}*"):
            shutil.rmtree(left, ignore_errors=True)

    async def take(self, title: str, chunks: AsyncIterator[bytes]) -> str:
        """Keep one upload. Returns the owner's name of the clip.

        Raises:
            Refused: Empty, too large, or no room on the disk.
        """
        owners = secrets.token_urlsafe(24)
        unfinished = anyio.Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=self._folder))
        try:
            await self._write(unfinished / "video", chunks)
            await (unfinished / "title").write_text(title.strip()[:TITLE_CHARS_MAX] or "a clip", "utf-8")
            await unfinished.rename(self._folder / shared_name(owners))
        except OSError as error:
            text = f"The upload could not be kept here: {error.strerror}. Try again later."
            raise Refused(text, status=507) from error
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)  # also when the sender went away
        return owners

    def owned(self, owners: str) -> Clip | None:
        """The clip with this owner's name."""
        return self._found(shared_name(owners), is_owners=True)

    def shared(self, shared: str) -> Clip | None:
        """The clip with this public name."""
        return self._found(shared, is_owners=False) if _SHARED.fullmatch(shared) else None

    async def _write(self, path: anyio.Path, chunks: AsyncIterator[bytes]) -> None:
        size = 0
        async with await anyio.open_file(path, "wb") as file:
            async for chunk in chunks:
                size += len(chunk)
                if size > self.bytes_max:
                    raise too_large(self.bytes_max)
                await file.write(chunk)
            await file.flush()
            await anyio.to_thread.run_sync(os.fsync, file.wrapped.fileno())
        if size == 0:
            raise Refused("The file is empty. Choose another one.", status=400)

    def _found(self, shared: str, *, is_owners: bool) -> Clip | None:
        folder = self._folder / shared
        try:
            title = (folder / "title").read_text("utf-8")
        except FileNotFoundError:
            return None
        return Clip(shared, title, folder / "video", is_owners)


def too_large(bytes_max: int) -> Refused:
    """The refusal of an upload beyond the limit."""
    return Refused(f"The file is larger than {bytes_max // 2**20} MiB. Send a shorter clip.", status=413)
