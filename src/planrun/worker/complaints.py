"""What goes wrong again and again is said once a minute: a full disk must not fill the log, too."""

from __future__ import annotations

import logging

from planrun.clock import Clock

SAME_EVERY_MS = 60_000


class Complaints:
    """The complaints of one part of the worker."""

    def __init__(self, log: logging.Logger, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._said_ms: dict[str, int] = {}

    def say(self, about: str, text: str) -> None:
        """Log a warning, unless the last one about the same is fresh.

        Args:
            about: What it is about: a fixed word, not one that names a job.
        """
        now_ms = self._clock.boot_ms()
        if now_ms >= self._said_ms.get(about, -SAME_EVERY_MS) + SAME_EVERY_MS:
            self._said_ms[about] = now_ms
            self._log.warning("%s", text)

    def over(self, about: str) -> None:
        """It is well again: the next complaint is news."""
        self._said_ms.pop(about, None)
