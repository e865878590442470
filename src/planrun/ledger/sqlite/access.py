"""Since when this process can write: the difference between a silent holder and a ledger that let nobody speak.

A lease that ran out while the file was locked, frozen or full says nothing about its holder. After such
a time everybody who waited gets a moment to renew, before anybody's lease is called over.

Where every turn is slow, because the disk is, that is no such time: holders come to their turns in between,
and no lease may be kept by it for ever.
"""

from __future__ import annotations

import math

from planrun.clock import Clock

DELAYED_MS = 250  # a turn that takes longer was no turn in the ordinary traffic
KNOWN_FOR_MS = 1_500  # without a write of our own for so long we do not know what others met
MOMENT_MS = 400  # longer than a holder waits between two tries to renew


class Access:
    """What the writer of this process met, lately. Boottime: who slept does not know what others met."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since_ms = -math.inf
        self._written_ms: float = clock.boot_ms()
        self._slow_ms = -math.inf  # when the last slow turn was over
        self._longest_ms = 0  # of the slow turns lately; it fades

    def wrote(self, *, asked_ms: int) -> None:
        """Something was committed, after a turn that was asked for at `asked_ms`."""
        now_ms = self._clock.boot_ms()
        if self._is_trouble(asked_ms, now_ms):
            self._since_ms = now_ms
        if now_ms - asked_ms > DELAYED_MS:
            self._longest_ms = max(now_ms - asked_ms, self._usual_ms(asked_ms) // 2)
            self._slow_ms = now_ms
        self._written_ms = now_ms

    def failed(self) -> None:
        """Something could not be written."""
        self._written_ms = -math.inf

    def is_settled(self, *, asked_ms: int) -> bool:
        """Inside a turn: have holders had their moment?"""
        now_ms = self._clock.boot_ms()
        return not self._is_trouble(asked_ms, now_ms) and now_ms - self._since_ms >= MOMENT_MS

    def _is_trouble(self, asked_ms: int, now_ms: int) -> bool:
        """Did this turn take much longer than turns do now, or is it not known how it was before?"""
        is_delayed = now_ms - asked_ms > max(DELAYED_MS, 2 * self._usual_ms(asked_ms))
        return is_delayed or asked_ms - self._written_ms > KNOWN_FOR_MS

    def _usual_ms(self, asked_ms: int) -> int:
        """How long slow turns take, where one follows the other; else 0."""
        return self._longest_ms if asked_ms - self._slow_ms < MOMENT_MS else 0
