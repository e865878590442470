"""What a worker does with what a transport hands it."""

from __future__ import annotations

from .fences import Fence

KEEPER = "worker/keeper.py"
TAKING = "worker/taking.py"


def keeper(name: str, old: str, new: str, test: str) -> Fence:
    return Fence(name, KEEPER, old, new, (f"tests/worker/test_keeper.py::{test}",))


TRANSPORT = [
    keeper(
        "a heartbeat that has only arrived revives nothing",
        "holding.belief.confirmed(sent_ms=sent_ms, now_ms=now_ms)",
        "holding.belief.answered(sent_ms=sent_ms)",
        "test_only_an_answer_revives_a_lease_past_its_deadline",
    ),
    keeper(
        "a word about another lease ends nothing",
        " or holding.lease != notice.lease:",
        ":",
        "test_a_word_about_something_else_ends_nothing",
    ),
    Fence(
        "an offer that the ledger does not know is kept",
        TAKING,
        "    if why in STRANGE:\n",
        "    if False:\n",
        ("tests/worker/test_taking.py::test_what_becomes_of_an_offer_that_is_refused",),
    ),
    Fence(
        "an offer whose grant was not answered goes back",
        TAKING,
        "            await give_back(asking.deliveries)\n            raise\n",
        "            raise\n",
        ("tests/worker/test_taking.py::test_an_unanswered_grant_is_asked_for_again_and_then_the_offer_goes_back",),
    ),
]
