"""The one answer of an ended job, and the messages that owe it: to those who are told, and to the public names."""

from __future__ import annotations

from typing import Any

from planrun.core.history import What
from planrun.core.kinds import RESULT_TTL_S
from planrun.core.life import Reason, State
from planrun.core.messages import Failure, Output, Result
from planrun.core.routes import Publish, check_route
from planrun.ledger.tx import Row, Tx, dump, load, one
from planrun.ledger.verbs.history import note
from planrun.ledger.verbs.holding import next_token


def subscribe(tx: Tx, job_id: str, route: str) -> None:
    """Owe the answer to a route. Who asks for a public name gets a place in the order of all who did."""
    tx.rows("insert_subscriber", job_id=job_id, route=route, seq=next_token(tx) if _is_public(route) else None)


def owe_answer(tx: Tx, job_id: str) -> None:
    """Owe the stored answer to every subscriber that is not owed it yet; each body is stored once, for all tries.

    Public names come first: the other messages name them, so they wait until the files stand there, or as long as a
    result is kept.
    """
    rows = tx.rows("subscribers", job_id=job_id)
    result = find_result(tx, job_id) if rows else None
    if result is None:
        return
    for row in rows:
        if _is_public(row["route"]) and _takes_name(tx, result, row):
            _owe(tx, job_id, row["route"], {"result": result})
    told = [row["route"] for row in rows if not _is_public(row["route"])]
    if told:
        names = [row["name"] for row in tx.rows("public_names", job_id=job_id)]
        body = {"result": result, "public_names": names} if names else {"result": result}
        held = one(tx, "unpublished", job_id=job_id) is not None
        for route in told:
            _owe(tx, job_id, route, body, not_before_ms=tx.now.boot_ms + kept_ms(tx, result) if held else 0)


def confirm(tx: Tx, msg_id: str, *, what: What | None = None, detail: str = "") -> None:
    """A message has arrived, and what is worth saying of that in the job's history."""
    if not tx.rows("confirm", msg_id=msg_id, wall_ms=tx.now.wall_ms):
        return
    _, job_id, route = msg_id.split(":", 2)
    if what is not None:
        note(tx, job_id, What(what), detail=detail)
    if _is_public(route):
        tx.rows("release_messages", job_id=job_id)


def holder_of(tx: Tx, namespace: str, name: str) -> str | None:
    """The job that has a public name: of those that finished, the one that asked for it last."""
    row = one(tx, "public_name", namespace=namespace, name=name)
    return None if row is None else str(row["job_id"])


def _is_public(route: str) -> bool:
    return route.startswith("publish:")


def _takes_name(tx: Tx, result: Result, row: Row) -> bool:
    """Does a job that ended take the public name that somebody asked for? If not, nothing is owed for it any more."""
    route = check_route(row["route"])
    assert isinstance(route, Publish)
    if result.state is State.FINISHED:
        name = {"namespace": result.namespace, "name": route.name}
        if tx.rows("take_public_name", job_id=result.job_id, seq=row["seq"], **name):
            return True
        note(tx, result.job_id, What.SUPERSEDED, detail=f"{route.name}: a later job has that name")
    tx.rows("tell_subscriber", job_id=result.job_id, route=row["route"])
    return False


def _owe(tx: Tx, job_id: str, route: str, body: dict[str, Any], *, not_before_ms: int = 0) -> None:
    msg_id = f"result:{job_id}:{route}"
    text = dump({"msg_id": msg_id, **body})
    tx.rows("insert_message", msg_id=msg_id, route=route, body=text, not_before_ms=not_before_ms)


def kept_ms(tx: Tx, result: Result) -> int:
    """How long a result is kept, as its kind says."""
    row = one(tx, "find_keep", kind=result.kind, version=result.version)
    return round(RESULT_TTL_S * 1000) if row is None else int(row["result_ttl_ms"])


def find_result(tx: Tx, job_id: str) -> Result | None:
    """The one answer of an ended job, from when it may be said, and while it is kept."""
    row = one(tx, "find_result", job_id=job_id)
    return _result(row) if row is not None and row["result_gone_at_ms"] is None and not row["closing"] else None


def stored_result(tx: Tx, job_id: str) -> Result | None:
    """The same for the archive and the store: also what nobody else gets any more, or not yet."""
    row = one(tx, "find_result", job_id=job_id)
    return _result(row) if row is not None else None


def _result(row: Row) -> Result:
    return Result(
        job_id=row["job_id"],
        namespace=row["namespace"],
        kind=row["kind"],
        version=row["version"],
        state=State(row["state"]),
        key=row["key"],
        reason=Reason(row["reason"]) if row["reason"] else None,
        attempt=row["attempt"],
        token=row["token"],
        outputs=load(row["outputs"], tuple[Output, ...]),
        value=load(row["value"], Any),
        error=load(row["error"], Failure),
        ended_at_ms=row["ended_at_ms"],
    )
