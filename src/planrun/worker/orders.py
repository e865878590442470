"""What a worker tells all of its running attempts at once."""

from __future__ import annotations

from collections.abc import Callable


class Orders:
    """Given once, never taken back; whoever listens is told that there is a new one.

    Attributes:
        hand_back: A deploy: leave a checkpoint where the kind can, then give the job back.
        hurry: Give it back now, as it is.
        abandon: This worker is broken: stop, say nothing; the leases run out.
        listeners: Called after each order.
    """

    def __init__(self) -> None:
        self.hand_back = self.hurry = self.abandon = False
        self.listeners: set[Callable[[], None]] = set()

    def give(self, *, hand_back: bool = False, hurry: bool = False, abandon: bool = False) -> None:
        """Add an order to those that stand."""
        self.hand_back |= hand_back
        self.hurry |= hurry
        self.abandon |= abandon
        for listener in list(self.listeners):
            listener()
