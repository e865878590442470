"""A sweep that would end very many leases at once is more likely to be wrong than right: then it goes slowly.

A rate and not a stop: whoever is really gone is given up in the end.
"""

from __future__ import annotations

from collections.abc import Mapping

SHARE_MAX = 0.3
WORKERS_MIN = 5
ONE_WORKER_EVERY_MS = 10_000


def is_braked(silent: Mapping[str, int], *, running: int, was_braked: bool) -> bool:
    """May only one worker's leases end now, because it is more likely us than them?

    Args:
        silent: Leases that ran out, by worker.
        running: All leases.
        was_braked: It was so at the last look: then it stays so until the share is small again, however few are left.
    """
    many = sum(silent.values()) > SHARE_MAX * running
    return many and (was_braked or len(silent) >= WORKERS_MIN)
