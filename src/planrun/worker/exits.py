"""Why an attempt ended without an answer, in words that tell the causes apart."""

from __future__ import annotations

import signal

from planrun.core.kinds import MIB
from planrun.core.life import Outcome
from planrun.core.limits import Breach
from planrun.core.messages import Failure
from planrun.worker.happenings import Exited

_MEANINGS = {
    signal.SIGSEGV: "invalid memory access in native code",
    signal.SIGABRT: "native code gave up with abort()",
    signal.SIGBUS: "memory that could not be read, such as a file that was cut off",
    signal.SIGILL: "an instruction that this processor does not have",
    signal.SIGFPE: "an arithmetic error in native code",
    signal.SIGKILL: "from outside: an operator, a container's limit, or the kernel for lack of memory",
    signal.SIGTERM: "from outside",
    signal.SIGXCPU: "the processor time limit of this machine",
    signal.SIGXFSZ: "the file size limit of this machine",
}


def explain(exited: Exited, *, breach: Breach | None = None) -> tuple[Outcome, Failure]:
    """What an attempt that gave no answer is settled with.

    Args:
        exited: How its tree ended.
        breach: The limit for which the worker had it killed, if it had.
    """
    if breach is not None:
        return breach.outcome, Failure(message=breach.message, code=breach.code, tail=exited.tail)
    code, message = _cause(exited)
    return Outcome.TRANSIENT, Failure(message=message, code=code, tail=exited.tail)


def _cause(exited: Exited) -> tuple[str, str]:
    peak = f"its largest process used {exited.max_rss_bytes / MIB:.0f} MiB"
    if exited.oom:
        return "memory", f"the kernel killed the job for lack of memory (SIGKILL; {peak})"
    if exited.signal is not None:
        return "signal", f"the job process was killed by {_signal_in_words(exited.signal)}"
    if exited.code is None:
        return "launcher", "the launcher of the job was killed; what it had started was ended"
    if exited.code == 0:
        return "no-answer", "the job process exited with code 0 before the job had returned"
    return "exit", f"the job process exited with code {exited.code}"


def _signal_in_words(number: int) -> str:
    try:
        name = signal.Signals(number)
    except ValueError:
        return f"signal {number}"
    meaning = _MEANINGS.get(name)
    return f"{name.name} ({meaning})" if meaning else name.name
