"""Write the generated parts of the documents: what the code already says is not said twice by hand.

    python docs/generate.py            write them
    python docs/generate.py --check    name those that are out of date, and exit 1

A generated part stands between `<!-- generated: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import dataclasses
import inspect
import io
import json
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from cyclopts import App
from rich.console import Console

from planrun.cli.app import EXIT_CODES, VERBS, build_app
from planrun.cli.exits import exit_of
from planrun.client import Answer, OutputFile
from planrun.client.content import Submit
from planrun.config import VALUE_BYTES_MAX
from planrun.core import errors
from planrun.core.budget import BACKOFF_MS, Budgets, Counter, after_attempt
from planrun.core.coverage import Coverage
from planrun.core.drains import Drain
from planrun.core.history import MEANINGS, What
from planrun.core.kinds import GIB, MIB, Kind
from planrun.core.life import ENDED, TRANSITIONS, Outcome, State, next_state
from planrun.core.messages import AttemptRow, Checkpoint, CheckpointFile, EventRow, Failure, Handler, JobRow
from planrun.core.names import NAME_RULE
from planrun.core.pauses import Pause
from planrun.core.presence import Presence
from planrun.core.requests import KEY_CHARS_MAX, PARAMS_BYTES_MAX
from planrun.core.why import Why
from planrun.orchestrator.outbox import DELIVERY_TIMEOUT_S
from planrun.orchestrator.sweeper import UNSUPPORTED_AFTER_MS
from planrun.transport.rabbitmq.asyncapi import document as messages_on_the_broker
from planrun.web.app import EVERY_ROUTE
from planrun.web.openapi import document, summary_of
from planrun.web.problems import FAULTS
from planrun.worker.keeper import PROGRESS_MS
from planrun.worker.options import WorkerOptions

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


def events() -> str:
    """Every kind of line in the history of a job."""
    return table(("what", "means; and what the line names"), [(f"`{what}`", MEANINGS[what]) for what in What])


def error_classes() -> str:
    """The exceptions, in the order of their tree."""
    rows = []
    for name in re.findall(r"^ *[*.-] (\w+)", errors.__doc__ or "", re.MULTILINE):
        kind: type[errors.PlanrunError] = getattr(errors, name)
        if kind in (errors.PlanrunError, errors.LostLease) or issubclass(kind, errors.JobError):
            continue
        bare = kind.__new__(kind)  # what a shell sees depends on its class alone
        rows.append((f"`{name}`", paragraph(kind.__doc__), str(int(exit_of(bare)))))
    return table(("raised", "means, and what to do", "exit code"), rows)


def settings(kind: type, *, without: Collection[str] = ()) -> str:
    """The fields of a dataclass with their defaults and what its docstring says of them."""
    means = attributes(kind)
    rows = [
        (f"`{setting.name}`", amount(setting.name, setting.default), means[setting.name])
        for setting in dataclasses.fields(kind)
        if setting.name not in without
    ]
    return table(("setting", "default", "means"), rows)


def attributes(kind: type) -> dict[str, str]:
    """The attributes that a docstring describes: name → text."""
    text = inspect.cleandoc(kind.__doc__ or "").partition("Attributes:\n")[2].partition("\nRaises:")[0]
    entries = re.split(r"^(?: {4})?(?=[a-z_]+: )", text, flags=re.MULTILINE)[1:]
    pairs = (entry.partition(": ") for entry in entries)
    return {name: " ".join(words.split()) for name, _, words in pairs}


def fixed_limits() -> str:
    """What cannot be set, and is met sooner or later."""
    rows = [
        ("parameters of a job, as JSON", f"{PARAMS_BYTES_MAX // 1024} KiB"),
        ("values that a job returns, as JSON", f"{VALUE_BYTES_MAX // 1024} KiB"),
        ("key, request id", f"{KEY_CHARS_MAX} characters"),
        ("names of kinds, versions, namespaces, inputs and needs", NAME_RULE),
        ("heartbeat of a worker", "every third of its lease"),
        ("progress", f"at most every {PROGRESS_MS / 1000:g} s"),
        ("one try of a delivery", f"{DELIVERY_TIMEOUT_S:g} s"),
        ("a job that no known worker could run", f"fails after {UNSUPPORTED_AFTER_MS // 60_000} min"),
    ]
    return table(("what", "limit"), rows)


def amount(name: str, value: object) -> str:
    """A default, in the unit that its name says."""
    match value:
        case dataclasses.MISSING | None | "" | ():
            return "–"
        case bool():
            return "yes" if value else "no"
        case tuple():
            return ", ".join(f"`{one}`" for one in value)
        case int() if "_bytes_" in name:
            return (f"{value // GIB} GiB" if value % GIB == 0 else f"{value // MIB} MiB") if value else "none"
        case int() | float() if name.endswith("_s"):
            return f"{value / 3600:g} h" if value >= 3600 else f"{value / 60:g} min" if value >= 120 else f"{value:g} s"
    return f"`{value}`"


def paragraph(text: str | None) -> str:
    """The first paragraph of a docstring, in one line."""
    return " ".join((text or "").strip().partition("\n\n")[0].split())


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


def json_verbs() -> str:
    """What each verb prints with --json."""
    if set(JSON) != set(VERBS) - FOR_EVER:
        raise SystemExit(f"say what --json prints: {sorted((set(VERBS) - FOR_EVER) ^ set(JSON))}")
    return table(("verb", "document"), [(f"`planrun {verb}`", JSON[verb]) for verb in VERBS if verb in JSON])


def json_shapes() -> str:
    """The fields of what is printed by name."""
    shapes = [f"### {name}\n\n{table(('field', 'type'), fields_of(shape))}" for name, shape in SHAPES.items()]
    return "\n\n".join(shapes)


def fields_of(shape: type) -> Sequence[tuple[str, ...]]:
    """Names and types as a reader of JSON knows them."""
    hints = get_type_hints(shape)
    names: Sequence[str] = (
        [field.name for field in fields(shape) if field.compare] if is_dataclass(shape) else list(hints)
    )
    known = {name.lstrip("_"): in_json(hints[name]) for name in names}
    known.update(ADDED.get(shape, {}))
    return [(f"`{name}`", what) for name, what in known.items()]


def in_json(hint: Any) -> str:
    """A Python type, in the words of JSON."""
    if hint is Any:
        return "any JSON value"
    if hint is type(None):
        return "null"
    if isinstance(hint, UnionType) or get_origin(hint) is Union:
        return " or ".join(in_json(part) for part in get_args(hint))
    if hint in JSON_TYPES:
        return JSON_TYPES[hint]
    known = {shape: name for name, shape in SHAPES.items()}
    if hint in known:
        return f"[{known[hint]}](#{known[hint].lower()})"
    origin = get_origin(hint)
    if origin is tuple:
        return f"list of {in_json(get_args(hint)[0])}"
    if origin in (dict, Mapping):
        return "object"
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return " or ".join(f"`{value}`" for value in hint)
    return "object"


def http_routes() -> str:
    paths = document(EVERY_ROUTE)["paths"]
    rows = []
    for route in EVERY_ROUTE:
        # The verbs of the ledger are alike, and are asked by programs that read the description.
        path = route.path.replace("{verb}", "submit")
        operation = paths[path][route.method.lower()]
        takes = [parameter["name"] for parameter in operation["parameters"] if parameter["in"] != "path"]
        takes += ["body"] if "requestBody" in operation else []
        name = f"`{route.method} {route.path}`"
        scope = "each its own" if route.by_verb else route.scope or "–"
        rows.append((name, summary_of(route), ", ".join(f"`{one}`" for one in takes), scope))
    return table(("route", "what it does", "takes", "scope of the token"), rows)


def http_problems() -> str:
    rows = [(f"`{fault.slug}`", str(fault.status), fault.title) for fault in FAULTS]
    return table(("type", "status", "title"), rows)


def scenarios() -> str:
    """Every test of a scenario, by its id: its name says what must come of it."""
    tests = [
        (match[1].upper(), match[2].replace("_", " "), f"`{file.name}`")
        for file in sorted((DOCS.parent / "tests" / "sim").glob("test_scenarios_*.py"))
        for match in re.finditer(r"^def test_([a-g]\d+)_(\w+)\(", file.read_text("utf-8"), re.MULTILINE)
    ]
    return table(("id", "what must hold", "test"), sorted(tests, key=lambda row: (row[0][0], int(row[0][1:]))))


def table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


FOR_EVER = {"orchestrator", "worker", "up"}
SHAPES: Mapping[str, type] = {
    "Job": JobRow,
    "Attempt": AttemptRow,
    "Answer": Answer,
    "Output": OutputFile,
    "Failure": Failure,
    "Event": EventRow,
    "Checkpoint": Checkpoint,
    "CheckpointFile": CheckpointFile,
    "Why": Why,
    "Kind": Coverage,
    "Pause": Pause,
    "Drain": Drain,
    "Worker": Presence,
    "Handler": Handler,
}
ADDED: Mapping[type, Mapping[str, str]] = {JobRow: {"left_ms": "number or null"}, Answer: {"ok": "boolean"}}
JSON_TYPES: Mapping[Any, str] = {
    str: "text",
    Path: "text",
    int: "number",
    float: "number",
    bool: "boolean",
    Any: "any JSON value",
}
JSON: Mapping[str, str] = {
    "submit": "`job_id`, `disposition`; with `--wait`, or if it failed at once: an Answer",
    "wait": "an Answer; of several jobs a list, with `job_id`, `exit`, `problem` where one has none",
    "show": "a Job with `attempts` (list of Attempt) and `answer` (Answer or null)",
    "why": "a Why",
    "list": "`jobs` (list of Job), `before` (cursor of the next page, or null)",
    "events": "list of Event; with `--follow` one Event a line",
    "logs": "`job_id`, `attempt`, `log`; with `--follow` one such document a line for each part",
    "result": "an Answer",
    "cancel": "`job`, `canceled`, `state`; of several jobs a list, with `exit` and `problem` where it failed",
    "retry": "`job`, `job_id`, `retry_of`, `key_taken`; of several jobs a list, as for `cancel`",
    "pause": "`paused`, `kind`, `namespace`",
    "resume": "`resumed`, `kind`, `namespace`, `still_paused` (list of Pause)",
    "pauses": "list of Pause",
    "rate": "list of `kind`, `per_s` (jobs per second)",
    "drain": "`drained`, or with `--undo` `undone`: list of names",
    "drains": "list of Drain",
    "top": "`jobs` and `ended_last_minute` (numbers by state), `waiting` (by `paused`, `no-worker`, `in-line`), "
    "`running` (list of Job), `workers` (list of Worker)",
    "workers": "list of Worker",
    "kinds": "list of Kind",
    "new": "`kind`, `module`, `files`",
    "token": "`create`: `token`, `token_id`, `expires_at_ms`; `list`: each with `token_id`, `name`, `scopes`, "
    "`namespaces` and the times `…_at_ms`; `revoke`: `revoked`, `token_id`",
    "migrate": "`before` and `schema` (numbers), `steps` (each with `schema`, `name`, `what`), `backup` (path or null)",
    "backup": "`file`, `bytes`",
    "gc": "`gone`: list of paths and keys",
    "sim": "`histories`, `steps`, `simulated_s`, `modes`, `counts`, `failed`: list of `seed` and `violations`; "
    "with `--shrink` the `script` of what does not hold",
    "check": "`ok`, what was found, `problems`: list of sentences",
    "lab": "`settings`, `sentence`, `tone`, `tally`, `points` (what happened), `spans` (what lasted), `link`, "
    "`command`; times in ms of the run",
    "verify": "`ok`, `held`, `verdict`, `count`: numbers, `wrongs`: list of `what`, `job` and `why`, "
    "`done`: faults by name, `not_tried`: list of sentences, `found` and `problems` as of `planrun check`, "
    "`seed`, `namespace`, `seconds` and more of the run",
    "completion": "`shell`, `script`",
}

PARTS: Mapping[str, Callable[[], str]] = {
    "diagram": diagram,
    "transitions": transitions,
    "outcomes": outcomes,
    "events": events,
    "error-classes": error_classes,
    "worker-settings": partial(settings, WorkerOptions),
    "kind-settings": partial(settings, Kind, without=("kind", "version", "module")),
    "submit-settings": partial(settings, Submit),
    "fixed-limits": fixed_limits,
    "exit-codes": exit_codes,
    "commands": commands,
    "http-routes": http_routes,
    "http-problems": http_problems,
    "json-verbs": json_verbs,
    "json-shapes": json_shapes,
    "scenarios": scenarios,
}


def renewed(text: str) -> str:
    return PART.sub(lambda part: f"{part[1]}{PARTS[part[2]]()}\n{part[3]}", text)


def asyncapi() -> str:
    return json.dumps(messages_on_the_broker(), indent=2, sort_keys=True) + "\n"


WHOLE: Mapping[str, Callable[[], str]] = {"reference/asyncapi.json": asyncapi}


def main(arguments: list[str]) -> int:
    stale = 0
    for path in sorted({*DOCS.rglob("*.md"), *(DOCS / name for name in WHOLE)}):
        text = path.read_text("utf-8") if path.exists() else ""
        whole = WHOLE.get(path.relative_to(DOCS).as_posix())
        new = whole() if whole is not None else renewed(text)
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
