"""What one worker process is told."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from planrun.core.errors import Invalid
from planrun.core.inputs import rules_from
from planrun.core.keeping import IDS_TTL_S, IDS_TTL_S_MIN, JOB_TTL_S
from planrun.core.kinds import GIB, MIB
from planrun.core.lease import heartbeat_ms
from planrun.core.spelling import CAPABILITY_RULE, NAME_RULE, is_capability, is_name

LEASE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """Attributes:
    modules: Import paths of the modules with `@job` functions.
    import_path: Folders put in front of the job process's import path.
    namespaces: Whose jobs it runs.
    name: What people call it; empty: its host and process.
    slots: How many jobs it runs at once.
    lease_s: How long the ledger waits for a sign of this worker before another takes its jobs over; None: 60 s, in a
        fleet what the orchestrator says.
    capabilities: What this machine can do, beside what the modules probe themselves.
    scratch: Root of the attempts' folders; None: beside the ledger.
    store: Where results go: `s3://bucket/prefix`, or the absolute path of a folder; empty: PLANRUN_STORE, else where
        they went before, at first beside the ledger.
    isolation: `auto`, or force one level: `full`, `subreaper`, `group`.
    proof_of_death: Take jobs of a provably dead worker over at once, not only when their lease runs out.
    dedup_size: How many ended attempts are remembered; 0 switches that memory off.
    checkpoint_grace_s: On SIGTERM, how long a resumable job may take to leave a checkpoint.
    drain_grace_s: On SIGTERM, how long jobs may go on, to end by themselves, before they are handed back.
    health: Command that must exit 0 before work is taken; empty: none.
    gc_grace_s: How long files of lost attempts stay before they are collected.
    job_ttl_s: How long ended jobs stay in the ledger before they are archived, for all workers of the ledger.
    ids_ttl_s: How long the ids of archived jobs are still known, for all workers of the ledger.
    disk_free_bytes_min: Always left free on the scratch disk.
    allow_input: Where inputs may come from: `https://HOST/PATH`, `https://*.example.org`, `http://…`, `file:/FOLDER`.
        Empty: `https://*`, which is public addresses alone, and, where only this box hands jobs in, every file.
    input_bytes_max: What may be fetched for one attempt.
    pass_environment: Further environment variables that job code may see.
    only_sweeps: On one box, end only what has run out, and leave it to the other workers of the ledger to announce
        answers, to collect and drop, and to say how long things are kept.

    Raises:
        Invalid: One of them cannot be right; says what and what to do.
    """

    modules: tuple[str, ...]
    import_path: tuple[Path, ...] = ()
    namespaces: tuple[str, ...] = ("default",)
    name: str = ""
    slots: int = 1
    lease_s: float | None = None
    capabilities: tuple[str, ...] = ()
    scratch: Path | None = None
    store: str = ""
    isolation: str = "auto"
    proof_of_death: bool = True
    dedup_size: int = 1000
    checkpoint_grace_s: float = 8
    drain_grace_s: float = 0
    health: str = ""
    gc_grace_s: float = 24 * 3600
    job_ttl_s: float = JOB_TTL_S
    ids_ttl_s: float = IDS_TTL_S
    disk_free_bytes_min: int = 64 * MIB
    allow_input: tuple[str, ...] = ()
    input_bytes_max: int = 64 * GIB
    pass_environment: tuple[str, ...] = ()
    only_sweeps: bool = False

    def __post_init__(self) -> None:
        for what in ("modules", "import_path", "namespaces", "capabilities", "allow_input", "pass_environment"):
            given = getattr(self, what)
            if isinstance(given, str) or not isinstance(given, Sequence):
                raise Invalid(f"{what}: pass a list, not {given!r:.80}")  # a lone text is a list of letters
        for name in self.namespaces:
            if not is_name(name):
                raise Invalid(f"namespace {name!r}: use {NAME_RULE}")
        for name in self.capabilities:
            if not is_capability(name):
                raise Invalid(f"capability {name!r}: use {CAPABILITY_RULE}")
        for what, least in _LEAST.items():
            number = getattr(self, what)
            if number is None and what == "lease_s":
                continue
            if not _is_number(number) or not least <= number <= _MOST:
                raise Invalid(f"{what} {number!r}: use {least} or more, {_MOST:g} at most")
        for what in ("slots", "dedup_size", "disk_free_bytes_min", "input_bytes_max"):
            if not isinstance(getattr(self, what), int):
                raise Invalid(f"{what} {getattr(self, what)!r}: use a whole number")
        rules_from(self.allow_input, is_fleet=True)
        if self.scratch is not None and not isinstance(self.scratch, Path):
            raise Invalid(f"scratch: pass a Path, not {self.scratch!r:.80}")

    @property
    def lease_ms(self) -> int:
        return round((self.lease_s or LEASE_S) * 1000)

    @property
    def heartbeat_ms(self) -> int:
        """How often it renews its leases."""
        return heartbeat_ms(self.lease_ms)


_MOST = 10**15  # bytes, or seconds: what is added to it still fits into the ledger
_LEAST = {
    "slots": 1,
    "lease_s": 1,
    "dedup_size": 0,
    "checkpoint_grace_s": 0,
    "drain_grace_s": 0,
    "gc_grace_s": 0,
    "job_ttl_s": 0,
    "ids_ttl_s": IDS_TTL_S_MIN,
    "disk_free_bytes_min": 0,
    "input_bytes_max": 0,
}


def _is_number(given: object) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool) and math.isfinite(given)
