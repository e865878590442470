"""What was changed in the ledger of this process since somebody last looked."""

from __future__ import annotations

from collections import deque

from planrun.ledger.fleet import FleetLedger


class Changes:
    """Heard on whatever thread commits, taken on the loop of whoever looks."""

    def __init__(self, ledger: FleetLedger) -> None:
        self._heard: deque[frozenset[str] | None] = deque()
        ledger.watch(self._heard.append)

    def take(self) -> frozenset[str] | None:
        """The jobs and the workers' incarnations that were changed; None: any may have been."""
        names: set[str] = set()
        is_known = True
        while self._heard:
            about = self._heard.popleft()
            is_known = is_known and about is not None
            names |= about or frozenset()
        return frozenset(names) if is_known else None
