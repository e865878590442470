"""The models of the protocol speak of the guards that the code has, and of every statement that moves a job."""

from __future__ import annotations

import re

import pytest

from models.run import CHECKS
from models.ties import CARRIED_BY, CODE, NO_GUARDS, SQL, fences_of_code, fences_of_models, untied
from tests.guards.every import EVERY
from tests.sim.bad_builds import BUILDS
from tests.tidy.tree import texts

MODELS = {name: text for name, text in texts(".pml").items() if name.startswith("models/")}
SOURCES = {
    name.removeprefix(f"{CODE}/"): text
    for name, text in {**texts(".sql"), **texts(".py")}.items()
    if name.startswith(f"{CODE}/")
}
PLACES = [(guard, *place) for guard, places in CARRIED_BY.items() for place in places]
EDITS = [(each.file, each.old, each.new) for each in EVERY] + [edit for build in BUILDS for edit in build.edits]
FENCES = fences_of_code(SOURCES)
OWN_ROW = [(statement, clause) for statement, clauses in FENCES.items() for clause in sorted(clauses)]


def test_every_guard_that_a_model_leaves_out_still_stands_in_the_code() -> None:
    assert untied(SOURCES) == []


@pytest.mark.parametrize(("guard", "file", "text"), PLACES)
def test_a_guard_that_is_gone_or_stands_in_a_comment_as_well_is_noticed(guard: str, file: str, text: str) -> None:
    for changed in (SOURCES[file].replace(text, ""), f"{SOURCES[file]}\n-- {text}"):
        assert f"{guard}: {file}: {text}" in untied({**SOURCES, file: changed})


def test_what_is_said_to_carry_a_guard_is_taken_down_in_the_code_as_well() -> None:
    """By `make guards` or in a known-bad build: something must then fail, so it is no mere text."""
    unmissed = [
        f"{guard}: {file}: {text}"
        for guard, file, text in PLACES
        if all(text in SOURCES[file].replace(old, new) for where, old, new in EDITS if where == file)
    ]

    assert unmissed == []


def test_every_guard_of_the_models_is_left_out_once_and_is_known_to_be_carried() -> None:
    known = {guard for text in MODELS.values() for guard in re.findall(r"(?:ifn?def |defined\()(WITHOUT_\w+)", text)}
    left_out = {flag for check in CHECKS for flag in check.flags.split() if flag.startswith("WITHOUT_")}

    assert left_out == known
    assert known <= {*CARRIED_BY, *NO_GUARDS}
    assert set(CARRIED_BY) <= {flag for check in CHECKS for flag in check.flags.split()}


def test_whatever_must_be_found_is_found_without_a_guard_that_the_code_has() -> None:
    bare = [check.name for check in CHECKS if check.finds and not {*CARRIED_BY, *NO_GUARDS} & {*check.flags.split()}]

    assert bare == []


def test_every_statement_that_moves_a_job_is_a_step_of_a_model_with_the_same_fence() -> None:
    assert len(FENCES) > 1
    assert fences_of_models(MODELS.values()) == FENCES


@pytest.mark.parametrize(("statement", "clause"), OWN_ROW)
def test_a_clause_that_a_statement_lost_is_noticed(statement: str, clause: str) -> None:
    file = f"{SQL}/{statement}.sql"
    assert SOURCES[file].count(clause) == 1
    changed = {**SOURCES, file: SOURCES[file].replace(clause, "1")}

    assert fences_of_code(changed)[statement] == FENCES[statement] - {clause}


@pytest.mark.parametrize("statement", FENCES)
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (r"inline {}\(", "inline renamed("),  # no step of that name
        (r"(?<!inline )\b{}\(", "skip; renamed("),  # nobody takes it
        (r"(?<!define )may_{}\([^)]*\)", "true"),  # it does not ask its fence
        (r"#define may_{}\((.*?)\) \((?!true|!ENDED\)|spent)(.*) && ", r"#define may_{}(\1) ("),  # a clause less
    ],
    ids=["renamed", "unused", "unasked", "weaker"],
)
def test_a_step_that_is_gone_or_asks_less_is_noticed(statement: str, old: str, new: str) -> None:
    changed = [re.sub(old.format(statement), new.format(statement), text) for text in MODELS.values()]

    assert fences_of_models(changed).get(statement) != FENCES[statement]
