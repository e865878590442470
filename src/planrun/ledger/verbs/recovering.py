"""What a ledger knows of its own history: its generation, and whether it is known to be behind."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from planrun.core.generations import History
from planrun.core.messages import GrantRequest, Lease
from planrun.core.names import token_of, token_shown
from planrun.core.seals import is_seal, seal_of
from planrun.ledger.tx import Tx, one

OWNER = "generation_owner"
SEAL_KEY = "seal_key"
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
        sealed=SEAL_KEY in facts,
        rolled_back=facts.get(ROLLED_BACK, ""),
    )


def be_strict(tx: Tx) -> None:
    """No answer is said before its manifest is adopted."""
    tx.rows("set_meta", k="strict", v=1)


def take_generation(tx: Tx, generation: int, owner: str, *, seal_key: str, recovering: bool) -> None:
    """Be of a generation that was taken in the store."""
    if not tx.rows("take_generation", generation=generation):
        return
    tx.rows("set_meta", k=OWNER, v=owner)
    tx.rows("set_meta", k=SEAL_KEY, v=seal_key)
    for fact in ("copied_at_ms", ROLLED_BACK):
        tx.rows("drop_meta", k=fact)
    if recovering:
        tx.rows("set_meta", k="recovering", v=1)
        tx.rows("set_meta", k="recovered_at_ms", v=tx.now.wall_ms)


def end_recovery(tx: Tx) -> None:
    """All that the store knows is adopted. Only now it is known which finished job of each key is the newest."""
    for job in tx.rows("keyless"):
        holder = one(tx, "find_open_key", **{part: job[part] for part in ("namespace", "kind", "version", "key")})
        if holder is not None:
            if holder["ended_at_ms"] is None or holder["ended_at_ms"] >= job["ended_at_ms"]:
                continue
            # It was given up in that other history, else there would be no newer one.
            tx.rows("give_key", job_id=holder["job_id"], key_open=0)
        tx.rows("give_key", job_id=job["job_id"], key_open=1)
    tx.rows("drop_meta", k="recovering")


def sealer(tx: Tx) -> Callable[..., str]:
    """Makes the seals of this generation, as `core.seals`; empty ones where no orchestrator has taken it."""
    key = one(tx, "meta", k=SEAL_KEY)
    return partial(seal_of, key["v"]) if key is not None else lambda *_: ""


def heed_offer(tx: Tx, offered: GrantRequest, attempt: int) -> None:
    """Somebody was offered a later attempt than the job's: was it this ledger that offered it, later than now?"""
    if _is_ours(tx, offered.seal, offered.job_id, offered.attempt):
        _accuse(tx, f"attempt {offered.attempt} of job {offered.job_id} was offered, and it is at {attempt}")


def heed_lease(tx: Tx, lease: Lease) -> None:
    """Somebody says that he holds this: was it given out by this ledger, later than now?"""
    facts = one(tx, "meta", k="generation"), one(tx, "meta", k="next_n")
    generation, n = (fact["v"] if fact is not None else 0 for fact in facts)
    if lease.token > token_of(generation, n) and _is_ours(tx, lease.seal, lease.job_id, lease.attempt, lease.token):
        _accuse(tx, f"somebody holds token {token_shown(lease.token)} for job {lease.job_id}")


def _is_ours(tx: Tx, seal: str, job_id: str, attempt: int, token: int = 0) -> bool:
    """Does it carry our seal? Anybody can say a high number. The seals of other generations say nothing here."""
    key = one(tx, "meta", k=SEAL_KEY)
    return key is not None and is_seal(seal, key["v"], job_id, attempt, token)


def _accuse(tx: Tx, what: str) -> None:
    """Write down that this ledger is behind. It grants nothing more until it is recovered."""
    if one(tx, "meta", k=ROLLED_BACK) is None:
        text = f"the ledger is behind its workers, as an older copy of it would be: {what}"
        tx.rows("set_meta", k=ROLLED_BACK, v=text)
