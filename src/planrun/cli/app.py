"""The verbs, and how errors reach the shell. Commands are loaded when they are called, so that each starts fast."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, get_args

from cyclopts import App, CycloptsError, Group, Parameter, Token, convert

from planrun.cli.asking import TOKENS
from planrun.cli.exits import Exit, exit_of
from planrun.cli.saying import say
from planrun.core.errors import PlanrunError

EXIT_CODES = """\
Exit codes: 0 finished, 1 job failed, 2 usage, 3 still running at the timeout,
4 canceled, 5 unreachable, 6 unknown id, 7 result no longer kept,
70 worker fatal (restart it)."""

JOBS = Group("Jobs", sort_key=1)
BOX = Group("This box", sort_key=2)

VERBS = {
    "submit": ("planrun.cli.submit:submit", JOBS),
    "wait": ("planrun.cli.wait:wait", JOBS),
    "show": ("planrun.cli.show:show", JOBS),
    "why": ("planrun.cli.why:why", JOBS),
    "list": ("planrun.cli.list:list_jobs", JOBS),
    "events": ("planrun.cli.history:events", JOBS),
    "logs": ("planrun.cli.history:logs", JOBS),
    "result": ("planrun.cli.wait:result", JOBS),
    "cancel": ("planrun.cli.cancel:cancel", JOBS),
    "retry": ("planrun.cli.retry:retry", JOBS),
    "pause": ("planrun.cli.pause:pause", BOX),
    "resume": ("planrun.cli.pause:resume", BOX),
    "pauses": ("planrun.cli.pause:pauses", BOX),
    "rate": ("planrun.cli.rate:rate", BOX),
    "drain": ("planrun.cli.drain:drain", BOX),
    "drains": ("planrun.cli.drain:drains", BOX),
    "top": ("planrun.cli.top:top", BOX),
    "kinds": ("planrun.cli.kinds:kinds", BOX),
    "workers": ("planrun.cli.workers:workers", BOX),
    "new": ("planrun.cli.new:new", BOX),
    "worker": ("planrun.cli.worker:worker", BOX),
    "up": ("planrun.cli.up:up", BOX),
    "orchestrator": ("planrun.cli.orchestrator:orchestrator", BOX),
    "token": ("planrun.cli.token:token", BOX),
    "migrate": ("planrun.cli.migrate:migrate", BOX),
    "backup": ("planrun.cli.backup:backup", BOX),
    "gc": ("planrun.cli.gc:gc", BOX),
    "sim": ("planrun.cli.sim:sim", BOX),
    "check": ("planrun.cli.check:check", BOX),
    "lab": ("planrun.cli.lab:lab", BOX),
    "verify": ("planrun.cli.verify:verify", BOX),
    "completion": ("planrun.cli.completion:completion", BOX),
}


def build_app() -> App:
    """The command line, with every verb named and none loaded."""
    app = App(
        name="planrun",
        help="Long jobs that finish exactly once: one stored result, one message, one answer.",
        help_epilogue=EXIT_CODES,
        help_format="plaintext",
        default_parameter=Parameter(negative=(), converter=_converted),  # no --no-… and --empty-… twins
        version=_version,
    )
    for verb, (home, group) in VERBS.items():
        app.command(home, name=verb, group=group)
    return app


def run(tokens: Sequence[str]) -> int:
    """Carry out one command line and return its exit status. Errors are one or two lines on stderr."""
    TOKENS.set(tuple(tokens))
    app = build_app()
    if not tokens or tokens[0] in ("--help", "-h"):
        for verb in VERBS:
            app[verb]  # only this page needs every verb's own words
    status: object = Exit.READER_GONE
    try:
        status = app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
    except CycloptsError as error:
        _complain(f"{error}\nTry planrun {_verb_of(tokens)}--help.")
        return Exit.USAGE
    except PlanrunError as error:
        _complain(str(error))
        return exit_of(error)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # The reader, such as `head`, has seen enough: that is no success of a job whose end is not known yet, and no
        # other end of one that has failed. Nothing may be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        what_to_do = "; give this user access to it" if isinstance(error, PermissionError) else ""
        _complain(f"{error.filename}: {error.strerror}{what_to_do}" if error.filename else str(error))
        return Exit.UNREACHABLE
    return status if isinstance(status, int) else Exit.FINISHED


def _converted(wanted: Any, tokens: Sequence[Token]) -> Any:
    """As ever, but half a number is no whole one: it would be rounded.

    Raises:
        ValueError: Where a whole number is wanted and none is given.
    """
    if int in _plain(wanted) and float not in _plain(wanted):
        for token in tokens:
            if not token.value.lstrip("+-").isdigit():
                raise ValueError(f'"{token.value}" is no whole number')
    return convert(wanted, tokens)


def _plain(wanted: Any) -> set[Any]:
    """The types that an annotation is made of."""
    parts = get_args(wanted)
    return {wanted}.union(*map(_plain, parts)) if parts else {wanted}


def _version() -> str:
    return version("planrun")


def _verb_of(tokens: Sequence[str]) -> str:
    return f"{tokens[0]} " if tokens and tokens[0] in VERBS else ""


def _complain(text: str) -> None:
    say(f"planrun: {text}")
