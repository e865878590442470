"""The models of the protocol speak of the guards that the code has, and of every statement that moves a job."""

from __future__ import annotations

import re

from models.run import CARRIED_BY, CHECKS, MODELLED, SQL
from tests.tidy.tree import texts

MODELS = {name: text for name, text in texts(".pml").items() if name.startswith("models/")}
MOVES_A_JOB = re.compile(r"UPDATE job\s+SET state\s+=")


def test_every_guard_that_a_model_leaves_out_still_stands_in_the_code() -> None:
    sources = {**texts(".sql"), **texts(".py")}
    gone = [f"{guard}: {file}" for guard, (file, text) in CARRIED_BY.items() if text not in sources.get(file, "")]

    assert gone == []


def test_every_guard_of_the_models_is_left_out_once_and_is_known_to_be_carried() -> None:
    known = {guard for text in MODELS.values() for guard in re.findall(r"(?:ifn?def |defined\()(WITHOUT_\w+)", text)}
    left_out = {flag for check in CHECKS for flag in check.flags.split() if flag.startswith("WITHOUT_")}

    assert left_out == known
    assert known - {"WITHOUT_S4"} <= set(CARRIED_BY)  # S4 is a claim, no guard


def test_every_statement_that_moves_a_job_is_a_step_of_a_model() -> None:
    moving = {
        name.removeprefix(f"{SQL}/").removesuffix(".sql")
        for name, text in texts(".sql").items()
        if MOVES_A_JOB.search(text)
    }

    assert moving == set(MODELLED)
    assert [step for step in MODELLED.values() if not any(step in text for text in MODELS.values())] == []
