"""What a worker tells all of its running attempts at once."""

from __future__ import annotations

import asyncio


class Orders:
    """Attributes:
    hand_back: A deploy: leave a checkpoint where the kind can, then give the job back.
    hurry: Give it back now, as it is.
    abandon: This worker is broken: stop, say nothing; the leases run out.
    """

    def __init__(self) -> None:
        self.hand_back = asyncio.Event()
        self.hurry = asyncio.Event()
        self.abandon = asyncio.Event()
