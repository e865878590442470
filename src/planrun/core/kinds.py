"""What a kind of job declares about itself. Plain data: it crosses from the job's module to the worker."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1024 * 1024
GIB = 1024 * MIB
DAY_S = 86_400
RESULT_TTL_S = 14 * DAY_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind and version, as declared with `@job`.

    Attributes:
        module: Import path of the module that declares it.
        needs: Capabilities that a worker must have to offer it.
        resumable: Name of the checkpoint layout; empty: the kind starts over after every interruption.
        warm: Reuse the process for the next job of the same kind (models); a fresh one per attempt otherwise.
        max_runtime_s: An attempt that runs longer is stopped as overtime; counts a failure.
        stall_s: Without a sign of life (progress, CPU, growing scratch) for so long: stopped as stalled.
        output_bytes_max: What scratch may hold; reserved on disk before the job starts, and enforced.
        memory_bytes_max: Resident memory of the whole tree; 0: no limit. Reserved and enforced.
        log_bytes_max: What is kept of the printed lines: the first and the last half.
        result_ttl_s: How long a result is kept after its job ended; then its files go and its key is free.
    """

    kind: str
    version: str
    module: str
    needs: tuple[str, ...] = ()
    resumable: str = ""
    warm: bool = False
    max_runtime_s: float = 24 * 3600
    stall_s: float = 1800
    output_bytes_max: int = 1 * GIB
    memory_bytes_max: int = 0
    log_bytes_max: int = 2 * MIB
    result_ttl_s: float = RESULT_TTL_S
