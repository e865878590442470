"""Each condition of each fenced statement has a guard that changes it, or a reason to have none."""

from __future__ import annotations

import re
from functools import cache

from .copies import SOURCE
from .every import EVERY
from .fences import SQL

MARK = re.compile(r"[();]|\b(?:WHERE|AND|RETURNING|ORDER BY|LIMIT|ON CONFLICT)\b")
NAMES = "says which rows the statement is about; nothing at all would be right without it"
BY_CHECK = "a CHECK of the schema gives a token to running jobs alone"
# A condition, or one of one statement, and why it has no guard.
EXEMPT = {
    **dict.fromkeys(
        [
            "job_id = :job_id",
            "job.job_id = beat.job_id",
            "job_id IN (SELECT value FROM json_each(:job_ids))",
            "msg_id = :msg_id",
            "msg_id IN (SELECT value FROM json_each(:msg_ids))",
            "o.msg_id IN (SELECT value FROM json_each(:msg_ids))",
            "incarnation IN (SELECT value FROM json_each(:incarnations))",
            "drain: incarnation = :incarnation",
            "undrain: incarnation = :incarnation",
            "end_drain: incarnation = :incarnation",
            "unsee_worker: incarnation = :incarnation",
            "token_id = :token_id",
            "k = :k",
            "k = 'next_n'",
            "k = 'generation'",
        ],
        NAMES,
    ),
    "state = 'running'": BY_CHECK,
    "job.state = 'running'": BY_CHECK,
}


def terms(sql: str) -> set[tuple[int, str]]:
    """The conditions of a statement: what AND joins in its WHERE, and in each WHERE of a SELECT in there.

    Each with its depth in parentheses: the same words may stand inside and outside of an EXISTS.
    """
    sql = " ".join(re.sub(r"--[^\n]*", "", sql).split()) + ";"
    found: set[tuple[int, str]] = set()
    begins: dict[int, int] = {}  # by depth: where the term that is read began
    depth = 0
    for mark in MARK.finditer(sql):
        if mark[0] == "(":
            depth += 1
        elif mark[0] == "WHERE":
            if depth == 0 or 0 in begins:  # not one of a value that is SET
                begins[depth] = mark.end()
        else:
            if depth in begins:
                found.add((depth, sql[begins.pop(depth) : mark.start()].strip()))
                if mark[0] == "AND":
                    begins[depth] = mark.end()
            depth -= mark[0] == ")"
    return found


@cache
def unguarded() -> dict[str, set[str]]:
    """By statement: the conditions that stay as they are in every mutant."""
    found = {}
    for path in sorted((SOURCE / SQL).glob("*.sql")):
        sql = path.read_text()
        if "-- Fence:" in sql:
            old_new = [(guard.old, guard.new) for guard in EVERY if guard.file == f"{SQL}/{path.name}"]
            stay = terms(sql).intersection(*(terms(sql.replace(old, new)) for old, new in old_new))
            found[path.stem] = {term for _, term in stay}
    return found


def test_each_condition_of_a_fence_has_a_guard() -> None:
    bare = [f"{name}: {term}" for name, stay in unguarded().items() for term in sorted(stay - EXEMPT.keys())]

    assert [each for each in bare if each not in EXEMPT] == []


def test_what_is_exempt_has_no_guard() -> None:
    """Else a reason outlives its condition."""
    bare = {each for name, stay in unguarded().items() for term in stay for each in (term, f"{name}: {term}")}

    assert EXEMPT.keys() - bare == set()


def test_the_conditions_of_a_statement_are_read_at_every_depth() -> None:
    sql = """-- WHERE a AND b
    UPDATE t SET x = (SELECT v FROM u WHERE k = 1)
     WHERE a = 1 AND (b = 2 OR c = 3 AND d = 4)
       AND NOT EXISTS (SELECT 1 FROM u WHERE e = 5 AND f IN (1, 2) LIMIT 1)
    RETURNING (SELECT v FROM u WHERE k = 2);"""

    assert terms(sql) == {
        (0, "a = 1"),
        (0, "(b = 2 OR c = 3 AND d = 4)"),
        (0, "NOT EXISTS (SELECT 1 FROM u WHERE e = 5 AND f IN (1, 2) LIMIT 1)"),
        (1, "e = 5"),
        (1, "f IN (1, 2)"),
    }
