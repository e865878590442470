"""Can the known fleet run it? Placeholder until the rules land."""

from __future__ import annotations

from collections.abc import Sequence

from planrun.core.messages import WorkerRow

CAPABILITY_TTL_MS = 3_600_000


def missing_for(
    workers: Sequence[WorkerRow], *, namespace: str, kind: str, version: str, needs: Sequence[str]
) -> str | None:
    return None
