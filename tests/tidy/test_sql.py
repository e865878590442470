"""SQL lives in files, one statement each. Whatever writes says on top what fences it; no job is updated without its
attempt."""

from __future__ import annotations

import ast
import re

from tests.tidy.tree import SOURCE, parsed, python, shown, texts

HOME = "src/planrun/ledger/sql/"
WRITES = re.compile(r"^\s*(WITH\b.*?\)\s*)?(INSERT|UPDATE|DELETE|REPLACE)\b", re.IGNORECASE | re.DOTALL)
UPDATES_JOB = re.compile(r"\bUPDATE\s+(OR\s+\w+\s+)?job\b", re.IGNORECASE)
NAMES_ATTEMPT = re.compile(r"\battempt\s*=\s*[:$]?\w", re.IGNORECASE)

# Updates of job rows that name no attempt, and why nothing can go wrong there: they touch nothing that a holder owns.
WITHOUT_ATTEMPT = {
    "drop_results.sql": "the result of an ended job is no longer kept",
    "give_key.sql": "which of the ended jobs with one key has it",
    "join_job.sql": "the urgency of an open job, for one more caller",
    "promote.sql": "a queued job's wait is over",
    "rebase_jobs.sql": "a queued job's wait, on the clock of a new boot",
}
# The same, and what it writes is a holder's: in the holder's favour alone.
IN_FAVOUR = {"rearm.sql": "every running lease gets its full length again"}
OWNED_BY_THE_HOLDER = re.compile(
    r"\b(state|attempt|token|incarnation|lease_until_ms|checkpoint|failures|losses|handbacks)\s*=", re.IGNORECASE
)


def statements() -> dict[str, str]:
    """The ledger's verbs. Migrations are schema, not verbs: several statements, no fence."""
    return {name: text for name, text in texts(".sql").items() if name.startswith(HOME)}


def bare(text: str) -> str:
    return re.sub(r"--[^\n]*", "", text).strip()


def where(text: str) -> str:
    return bare(text).upper().partition("WHERE")[2]


def test_a_file_holds_one_statement() -> None:
    several = [name for name, text in statements().items() if ";" in bare(text).rstrip(";")]

    assert several == []


def test_a_write_says_what_fences_it() -> None:
    silent = [name for name, text in statements().items() if WRITES.match(bare(text)) and "-- Fence:" not in text]

    assert silent == []


def test_a_job_is_never_updated_without_its_attempt() -> None:
    unfenced = [
        name.rpartition("/")[2]
        for name, text in statements().items()
        if UPDATES_JOB.search(bare(text)) and not NAMES_ATTEMPT.search(where(text))
    ]

    assert sorted(set(unfenced)) == sorted({*WITHOUT_ATTEMPT, *IN_FAVOUR})


def test_an_update_without_attempt_touches_nothing_that_a_holder_owns() -> None:
    touching = [
        name
        for name, text in statements().items()
        if name.rpartition("/")[2] in WITHOUT_ATTEMPT
        and OWNED_BY_THE_HOLDER.search(bare(text).partition("SET")[2].partition("WHERE")[0])
    ]

    assert touching == []


def test_no_python_source_carries_a_write() -> None:
    """A statement in a string would escape the rules above."""
    shape = re.compile(r"^\s*(INSERT\s+(OR\s+\w+\s+)?INTO|UPDATE\s+\w+\s+SET|DELETE\s+FROM)\s", re.IGNORECASE)
    found = [
        f"{shown(path)}:{node.lineno}"
        for path in python(SOURCE)
        if shown(path) != "src/planrun/inbox.py"  # an application's database, with rules of its own
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and shape.match(node.value)
    ]

    assert found == []
