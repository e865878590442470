"""When a running attempt has gone too far, and what counts as a sign of its life.

A lease says that the worker lives; these rules say whether the job does. A slow job is never stopped
for being slow: any progress report, growth of its scratch or use of CPU above noise is a sign of life.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from planrun.core.kinds import MIB, Kind
from planrun.core.life import Outcome

SEEN_MS_MAX = 2_000  # between two looks, a second apart
CPU_NOISE_MS = 50
CPU_NOISE_SHARE = 0.02  # of one core: a loop that only polls stays below


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """What a process tree uses, measured about once per second.

    Attributes:
        cpu_ms: CPU time used so far, milliseconds.
        rss_bytes: Resident memory of all its processes together.
        scratch_bytes: What its folders occupy on disk, inputs left out.
    """

    cpu_ms: int = 0
    rss_bytes: int = 0
    scratch_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """The last sign of life, and the measurements that a next one is compared with.

    Attributes:
        at_ms: When it was seen, boottime milliseconds.
    """

    at_ms: int
    vitals: Vitals = Vitals()


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """A limit that an attempt went beyond. The message names the limit and the value."""

    outcome: Outcome
    code: str
    message: str


def look(signs: Signs, *, vitals: Vitals | None, progressed: bool, now_ms: int) -> Signs:
    """Take a new measurement or progress report into account.

    Args:
        vitals: The newest measurement; None: there is none.
        progressed: The job reported progress or a checkpoint since the last look.
        now_ms: Boottime, milliseconds.
    """
    if vitals is None:
        return replace(signs, at_ms=now_ms) if progressed else signs
    before = signs.vitals
    noise_ms = max(CPU_NOISE_MS, CPU_NOISE_SHARE * (now_ms - signs.at_ms))
    # A sum over living processes can also fall: one of them ended, and that is life too.
    worked = abs(vitals.cpu_ms - before.cpu_ms) > noise_ms
    if progressed or worked or vitals.scratch_bytes > before.scratch_bytes:
        return Signs(at_ms=now_ms, vitals=vitals)
    # CPU is compared with the last sign, so that noise adds up over no longer time than its share does.
    return replace(signs, vitals=replace(before, scratch_bytes=vitals.scratch_bytes))


def unseen_ms(*, looked_ms: int, now_ms: int) -> int:
    """How much of the time since the last look counts for no limit: nobody was there to see what the job does."""
    return max(0, now_ms - looked_ms - SEEN_MS_MAX)


def check(kind: Kind, *, started_ms: int, last_sign_ms: int, vitals: Vitals, now_ms: int) -> Breach | None:
    """The first limit that is exceeded, if any. Times are boottime milliseconds."""
    ran_s = (now_ms - started_ms) / 1000
    silent_s = (now_ms - last_sign_ms) / 1000
    if ran_s > kind.max_runtime_s:
        message = f"ran {_seconds(ran_s)}, longer than its limit max_runtime_s = {kind.max_runtime_s:g}"
        return Breach(outcome=Outcome.OVERTIME, code="overtime", message=message)
    if silent_s > kind.stall_s:
        message = (
            f"no progress, CPU use or growing scratch for {_seconds(silent_s)}, "
            f"longer than its limit stall_s = {kind.stall_s:g}"
        )
        return Breach(outcome=Outcome.STALLED, code="stalled", message=message)
    if 0 < kind.memory_bytes_max < vitals.rss_bytes:
        message = (
            f"used {_mib(vitals.rss_bytes)} of memory, more than its limit "
            f"memory_bytes_max = {_mib(kind.memory_bytes_max)}"
        )
        return Breach(outcome=Outcome.TRANSIENT, code="memory", message=message)
    return check_output(kind, vitals.scratch_bytes)


def check_output(kind: Kind, count: int) -> Breach | None:
    """Are so many bytes more than its scratch may hold?"""
    if count <= kind.output_bytes_max:
        return None
    message = (
        f"wrote {_mib(count)} to its scratch, more than its limit output_bytes_max = {_mib(kind.output_bytes_max)}"
    )
    return Breach(outcome=Outcome.TRANSIENT, code="output", message=message)


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds:.0f} s"


def _mib(count: int) -> str:
    return f"{count / MIB:.1f} MiB"
