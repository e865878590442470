"""The one line between a job process and its worker: JSON objects, one per line, on an inherited socket.

Down: `run`, `stop`, `checkpoint-taken`, `checkpoint-refused`.
Up: `ready`, `progress`, `checkpoint`, `done`, `error`, `stopped`.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from typing import Any


class Channel:
    """Whole lines both ways. When the worker is gone there is nobody to work for: the process ends at once."""

    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)
        self._descriptor = descriptor
        self._writing = threading.Lock()
        os.register_at_fork(after_in_child=self._forget)

    def send(self, say: str, **fields: Any) -> None:
        """Send one message, blocking while the worker is not reading."""
        line = memoryview((json.dumps({"say": say, **fields}) + "\n").encode())
        with self._writing:
            try:
                while line:
                    line = line[os.write(self._descriptor, line) :]
            except OSError:
                os._exit(1)

    def messages(self) -> Iterator[dict[str, Any]]:
        """Everything that the worker says. Ends the process when the worker is gone."""
        rest = b""
        while True:
            try:
                chunk = os.read(self._descriptor, 65536)
            except OSError:
                chunk = b""
            if not chunk:
                os._exit(1)
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield json.loads(line)

    def _forget(self) -> None:
        """In a forked child: it is not the job, so it must neither hold the line open nor speak on it."""
        os.close(self._descriptor)
        self._descriptor = -1
        self._writing = threading.Lock()
