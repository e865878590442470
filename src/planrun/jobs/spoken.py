"""What a command says: lines of a word and its arguments, on the descriptor PLANRUN_PROGRESS_FD.

    progress FRACTION MESSAGE…
    checkpoint
    output NAME PATH
    value JSON
    error permanent|transient|fatal [CODE] MESSAGE…

A fraction is a number, or two as in 3/8. The brackets around a code are typed; a code may be left out.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

from planrun.core.errors import Fatal, JobError, Permanent, Transient
from planrun.jobs.context import JobContext, Stopped

OUT = "out"
VERDICTS: dict[str, type[JobError]] = {"permanent": Permanent, "transient": Transient, "fatal": Fatal}

_ERROR = re.compile(r"(permanent|transient|fatal)(?:\s+\[([^\]]*)\])?(?:\s+(.*))?", re.DOTALL)
_SHOWN = 80


class Spoken:
    """Carries out the lines of one command, and keeps what its answer is made of.

    Attributes:
        failure: The last `error` line. It outweighs the exit code.
    """

    def __init__(self, j: JobContext) -> None:
        self.failure: JobError | None = None
        self._j = j
        self._outputs: dict[str, Path] = {}
        self._value: Any = None

    def hear(self, line: str) -> str | None:
        """Obey one line.

        Returns:
            What the command is to be answered: `taken`, `refused` or `stop` after a checkpoint.

        Raises:
            Permanent: It lacks what its word needs.
        """
        word, _, rest = line.strip().partition(" ")
        rest = rest.strip()
        match word:
            case "progress":
                fraction, _, message = rest.partition(" ")
                self._j.progress(_share(fraction), message)
            case "checkpoint":
                return self._checkpoint()
            case "output":
                name, _, path = rest.partition(" ")
                if not path:
                    raise _unfit(line, "write: output NAME PATH")
                self._outputs[name] = Path(path.strip())
            case "value":
                self._value = _parsed(rest)
            case "error":
                self.failure = _failure(line, rest)
            case "":
                pass
            case _:
                self._j.log(f"planrun: ignored the line {line[:_SHOWN]!r}: {word[:_SHOWN]!r} is no word of a job")
        return None

    def answer(self) -> Any:
        """What the job returns: the files that were named, or those in `scratch/out`, and the value.

        Raises:
            Permanent: Files and value cannot be joined.
        """
        outputs = self._outputs or {path.name: path for path in sorted((self._j.scratch / OUT).iterdir())}
        if not outputs:
            return self._value
        if self._value is None:
            return outputs
        if not isinstance(self._value, dict) or self._value.keys() & outputs.keys():
            raise Permanent(
                "beside files, a value has to be a JSON object whose names are not those of the files",
                code="bad-answer",
            )
        return {**self._value, **outputs}

    def _checkpoint(self) -> str:
        try:
            return "taken" if self._j.progress.checkpoint() else "refused"
        except Stopped:
            return "stop"


def _share(text: str) -> float:
    part, slash, whole = text.partition("/")
    try:
        return float(part) / float(whole) if slash else float(part)
    except (ValueError, ZeroDivisionError):
        return math.nan  # for `progress` to complain about


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Permanent(f"the line value {text[:_SHOWN]!r} is not JSON: {error}", code="bad-answer") from None


def _failure(line: str, rest: str) -> JobError:
    found = _ERROR.fullmatch(rest)
    if found is None:
        raise _unfit(line, "write: error permanent|transient|fatal [code] message")
    verdict, code, message = found.groups(default="")
    return VERDICTS[verdict](message.strip() or f"the command called it {verdict}, without a message", code=code)


def _unfit(line: str, advice: str) -> Permanent:
    return Permanent(f"the command said {line[:_SHOWN]!r}; {advice}", code="bad-line")
