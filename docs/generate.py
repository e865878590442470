"""Write the generated parts of the documents: what the code already says is not said twice by hand.

    python docs/generate.py            write them
    python docs/generate.py --check    name those that are out of date, and exit 1

A generated part stands between `<!-- generated: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cyclopts import App
from rich.console import Console

from planrun.cli.app import EXIT_CODES, VERBS, build_app
from planrun.core.budget import BACKOFF_MS, Budgets, Counter, after_attempt
from planrun.core.life import ENDED, TRANSITIONS, Outcome, State, next_state
from planrun.web.app import EVERY_ROUTE
from planrun.web.openapi import document
from planrun.web.problems import FAULTS

DOCS = Path(__file__).parent
LIMITS = {
    Counter.FAILURES: Budgets().max_attempts,
    Counter.LOSSES: Budgets().max_losses,
    Counter.HANDBACKS: Budgets().max_handbacks,
}
PART = re.compile(r"(<!-- generated: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def diagram() -> str:
    """The table of `core.life` as a state diagram."""
    lines = ["```mermaid", "stateDiagram-v2", "    [*] --> queued: submit"]
    for state, moves in TRANSITIONS.items():
        lines += [f"    {state} --> {target}: {event}" for event, target in moves.items()]
    lines += [f"    {state} --> [*]" for state in TRANSITIONS if state in ENDED]
    return "\n".join([*lines, "```"])


def transitions() -> str:
    """The same table, in text."""
    rows = [(state, event, target) for state, moves in TRANSITIONS.items() for event, target in moves.items()]
    return table(("from", "what happens", "to"), [tuple(str(cell) for cell in row) for row in rows])


def outcomes() -> str:
    """What becomes of a job after each way an attempt can end: asked of the function that decides it."""
    rows = []
    for outcome in Outcome:
        verdict = after_attempt(Budgets(), outcome)
        state = next_state(State.RUNNING, verdict.event)
        becomes = f"{state} ({verdict.reason})" if verdict.reason else str(state)
        counted = f"{verdict.counter} of {LIMITS[verdict.counter]}" if verdict.counter else "–"
        wait = f"{verdict.wait_ms / 1000:g} s" if verdict.wait_ms else "none"
        rows.append((f"`{outcome}`", becomes, counted, wait if state is State.QUEUED else "–"))
    waits = ", ".join(f"{wait_ms / 1000:g}" for wait_ms in BACKOFF_MS)
    shown = table(("the attempt ended", "the job, the first time", "counted in", "wait before the next attempt"), rows)
    return f"{shown}\n\nWaits grow with the counter: {waits} s, and stay there; the first loss waits nothing."


def commands() -> str:
    """What each command says of itself."""
    app = build_app()
    return "\n\n".join(f"## planrun {verb}\n\n```text\n{help_of(app, verb)}\n```" for verb in VERBS)


def help_of(app: App, verb: str) -> str:
    out = io.StringIO()
    app.help_print([verb], console=Console(file=out, width=110, force_terminal=False, color_system=None))
    text = out.getvalue().removesuffix(f"{EXIT_CODES}\n")
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def exit_codes() -> str:
    return f"```text\n{EXIT_CODES}\n```"


def http_routes() -> str:
    paths = document(EVERY_ROUTE)["paths"]
    rows = []
    for route in EVERY_ROUTE:
        operation = paths[route.path][route.method.lower()]
        takes = [parameter["name"] for parameter in operation["parameters"] if parameter["in"] != "path"]
        takes += ["body"] if "requestBody" in operation else []
        name = f"`{route.method} {route.path}`"
        rows.append((name, operation["summary"], ", ".join(f"`{one}`" for one in takes)))
    return table(("route", "what it does", "takes"), rows)


def http_problems() -> str:
    rows = [(f"`{fault.slug}`", str(fault.status), fault.title) for fault in FAULTS]
    return table(("type", "status", "title"), rows)


def table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


PARTS: Mapping[str, Callable[[], str]] = {
    "diagram": diagram,
    "transitions": transitions,
    "outcomes": outcomes,
    "exit-codes": exit_codes,
    "commands": commands,
    "http-routes": http_routes,
    "http-problems": http_problems,
}


def renewed(text: str) -> str:
    return PART.sub(lambda part: f"{part[1]}{PARTS[part[2]]()}\n{part[3]}", text)


def main(arguments: list[str]) -> int:
    stale = 0
    for path in sorted(DOCS.rglob("*.md")):
        text = path.read_text("utf-8")
        new = renewed(text)
        if new == text:
            continue
        if arguments == ["--check"]:
            print(f"{path.relative_to(DOCS)} is out of date: make docs")
            stale += 1
        else:
            path.write_text(new, "utf-8")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
