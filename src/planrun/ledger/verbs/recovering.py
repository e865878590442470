"""What a ledger knows of its own history: its generation, and whether it is known to be behind."""

from __future__ import annotations

from planrun.core.generations import History
from planrun.core.messages import Lease
from planrun.core.names import token_of
from planrun.ledger.tx import Tx, one

OWNER = "generation_owner"
ROLLED_BACK = "rolled_back"  # in meta: proof that the ledger is behind, in words; then it grants nothing


def history(tx: Tx) -> History:
    """The ledger's facts about itself."""
    facts = {row["k"]: row["v"] for row in tx.rows("meta_all")}
    return History(
        uuid=facts["ledger_uuid"],
        generation=facts["generation"],
        n=facts["next_n"],
        owner=facts.get(OWNER, ""),
        strict=bool(facts.get("strict")),
        copied_at_ms=facts.get("copied_at_ms"),
        recovering="recovering" in facts,
        rolled_back=facts.get(ROLLED_BACK, ""),
    )


def be_strict(tx: Tx) -> None:
    """No answer is said before its manifest is adopted."""
    tx.rows("set_meta", k="strict", v=1)


def take_generation(tx: Tx, generation: int, owner: str, *, recovering: bool) -> None:
    """Be of a generation that was taken in the store."""
    if not tx.rows("take_generation", generation=generation):
        return
    tx.rows("set_meta", k=OWNER, v=owner)
    for fact in ("copied_at_ms", ROLLED_BACK):
        tx.rows("drop_meta", k=fact)
    if recovering:
        tx.rows("set_meta", k="recovering", v=1)
        tx.rows("set_meta", k="recovered_at_ms", v=tx.now.wall_ms)


def end_recovery(tx: Tx) -> None:
    """All that the store knows is adopted."""
    tx.rows("drop_meta", k="recovering")


def suspect(tx: Tx, what: str) -> None:
    """Somebody holds what this ledger has not given out yet: it was given out by the same ledger, later than now.

    After a recovery an attempt may well be ahead: of the history that was left behind.
    """
    if one(tx, "meta", k="recovered_at_ms") is None:
        accuse(tx, what)


def accuse(tx: Tx, what: str) -> None:
    """Write down that this ledger is behind. It grants nothing more until it is recovered.

    A ledger that no orchestrator has owned is read by its own workers alone: they are never ahead of it.
    """
    if one(tx, "meta", k=OWNER) is not None and one(tx, "meta", k=ROLLED_BACK) is None:
        text = f"the ledger is behind its workers, as an older copy of it would be: {what}"
        tx.rows("set_meta", k=ROLLED_BACK, v=text)


def is_ahead(tx: Tx, lease: Lease) -> bool:
    """Is this a token that this ledger has not given out yet?"""
    generation, n = one(tx, "meta", k="generation"), one(tx, "meta", k="next_n")
    return generation is not None and n is not None and lease.token > token_of(generation["v"], n["v"])
