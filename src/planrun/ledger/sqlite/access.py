"""Since when this process can write: the difference between a silent holder and a ledger that let nobody speak.

A lease that ran out while the file was locked, frozen or full says nothing about its holder. After such
a time everybody who waited gets a moment to renew, before anybody's lease is called over.
"""

from __future__ import annotations

import math
import time

DELAYED_S = 0.25  # a turn that takes longer was no turn in the ordinary traffic
KNOWN_FOR_S = 1.5  # without a write of our own for so long we do not know what others met
MOMENT_S = 0.4  # longer than a holder waits between two tries to renew


class Access:
    """What the writer of this process met, lately. Seconds of the monotonic clock."""

    def __init__(self) -> None:
        self._since_s = -math.inf
        self._written_s = time.monotonic()

    def wrote(self, *, asked_s: float) -> None:
        """Something was committed, after a turn that was asked for at `asked_s`."""
        now_s = time.monotonic()
        if now_s - asked_s > DELAYED_S or now_s - self._written_s > KNOWN_FOR_S:
            self._since_s = now_s
        self._written_s = now_s

    def failed(self) -> None:
        """Something could not be written."""
        self._written_s = -math.inf

    def is_settled(self, *, asked_s: float) -> bool:
        """Inside a turn: have holders had their moment?"""
        now_s = time.monotonic()
        known = now_s - asked_s <= DELAYED_S and now_s - self._written_s <= KNOWN_FOR_S
        return known and now_s - self._since_s >= MOMENT_S
