"""What a worker tells all of its running attempts at once."""

from __future__ import annotations

from collections.abc import Callable


class Orders:
    """Given once, never taken back; whoever listens is told that there is a new one.

    Attributes:
        hand_back: A deploy: leave a checkpoint where the kind can, then give the job back.
        hand_back_ms: When that was said first, boottime.
        hurry: Give it back now, as it is.
        abandon: This worker is broken: stop, say nothing; the leases run out.
        listeners: Called after each order, in the order in which they came.
    """

    def __init__(self) -> None:
        self.hurry = self.abandon = False
        self.hand_back_ms: int | None = None
        self.listeners: list[Callable[[], None]] = []

    @property
    def hand_back(self) -> bool:
        return self.hand_back_ms is not None

    def is_over(self, now_ms: int, grace_s: float) -> bool:
        """Is there no time left for anything that can be done without?"""
        is_late = self.hand_back_ms is not None and now_ms >= self.hand_back_ms + grace_s * 1000
        return self.hurry or self.abandon or is_late

    def give(self, *, hand_back_ms: int | None = None, hurry: bool = False, abandon: bool = False) -> None:
        """Add an order to those that stand."""
        if self.hand_back_ms is None:
            self.hand_back_ms = hand_back_ms
        self.hurry |= hurry
        self.abandon |= abandon
        for listener in [*self.listeners]:
            listener()
