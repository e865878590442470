"""What goes wrong again and again is said once a minute: a full disk must not fill the log, too."""

from __future__ import annotations

import logging

from planrun.clock import Clock

SAME_EVERY_MS = 60_000


class Complaints:
    """The complaints of one part of a process."""

    def __init__(self, log: logging.Logger, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._said_ms: dict[str, int] = {}
        self._unsaid: dict[str, int] = {}

    def say(self, about: str, text: str, *, level: int = logging.WARNING) -> None:
        """Log it, unless the last one about the same is fresh; the next one that is logged counts those between.

        Args:
            about: What it is about: a fixed word, not one that names a job.
        """
        now_ms = self._clock.boot_ms()
        if now_ms < self._said_ms.get(about, -SAME_EVERY_MS) + SAME_EVERY_MS:
            self._unsaid[about] = self._unsaid.get(about, 0) + 1
            return
        self._said_ms[about] = now_ms
        unsaid = self._unsaid.pop(about, 0)
        self._log.log(level, "%s%s", text, f" (and {unsaid} more of the kind since it was last said)" if unsaid else "")

    def over(self, about: str) -> bool:
        """It is well again: the next complaint is news. True: there was one."""
        self._unsaid.pop(about, None)
        return self._said_ms.pop(about, None) is not None
