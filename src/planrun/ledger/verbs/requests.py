"""Which job a request led to: the one that it made, whose id is derived from it, or one that it joined."""

from __future__ import annotations

from planrun.core.life import State
from planrun.core.names import job_id_of
from planrun.ledger.tx import Row, Tx, one


def shown_state(row: Row) -> State:
    """The state of a job as everybody sees it: one whose answer may not be said yet runs."""
    return State.RUNNING if row["closing"] else State(row["state"])


def find_request(tx: Tx, namespace: str, request_id: str) -> Row | None:
    """A request that was taken in before: its hash, and its job."""
    own = job_id_of(namespace, request_id)
    return one(tx, "find_request", namespace=namespace, request_id=request_id, own=own)


def job_of_request(tx: Tx, namespace: str | None, request_id: str) -> str | None:
    """The job that a request led to; `namespace` None: in any. The id of an archived job means that one."""
    if one(tx, "find_archived", job_id=request_id, namespace=namespace) is not None:
        return request_id
    namespaces = [namespace] if namespace is not None else [row["namespace"] for row in tx.rows("namespaces")]
    for asked_in in namespaces:
        row = find_request(tx, asked_in, request_id)
        if row is not None:
            return str(row["job_id"])
    row = one(tx, "job_of_request", request_id=request_id, namespace=namespace)  # of a job that is in the archive
    return None if row is None else str(row["job_id"])
