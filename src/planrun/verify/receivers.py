"""Where the messages of a run arrive, and how they are read."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Protocol

from planrun.core.errors import TransportUnavailable
from planrun.verify.story import Copy
from planrun.wiring.probing import Listener


class Receiver(Protocol):
    """Attributes:
    route: What to subscribe with.
    """

    @property
    def route(self) -> str: ...

    async def arrived(self) -> list[Copy]:
        """All so far, further copies too."""
        ...

    async def close(self) -> None: ...


class FolderReceiver:
    """Each copy is a file, written by a program that whoever announces starts."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder

    @property
    def route(self) -> str:
        """A copy whose writer was killed half-way never gets the name under which it is read."""
        program = 'f=$(mktemp "$0/.XXXXXXXXXX") && cat > "$f" && mv "$f" "$f.json"'
        return f"command:sh -c '{program}' '{self._folder}'"

    async def arrived(self) -> list[Copy]:
        return [Copy.read(path.read_text()) for path in sorted(self._folder.glob(".*.json"))]

    async def close(self) -> None:
        """The folder goes with all others of the run."""


class QueueReceiver:
    """A queue of the run's own, on the broker of the fleet."""

    def __init__(self, listener: Listener, queue: str) -> None:
        """
        Args:
            listener: It listens already.
        """
        self._listener = listener
        self._queue = queue

    @property
    def route(self) -> str:
        return f"rabbitmq:{self._queue}"

    async def arrived(self) -> list[Copy]:
        with suppress(TransportUnavailable):  # the next time, then
            await self._listener.listen()
        return [Copy.read(body) for body in self._listener.bodies]

    async def close(self) -> None:
        await self._listener.close()
