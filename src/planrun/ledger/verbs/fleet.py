"""The workers that a ledger knows, and what they could run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cached_property, lru_cache, partial
from typing import Any

from planrun.core import routing
from planrun.core.life import Reason, State
from planrun.core.machines import MachineClass
from planrun.core.messages import Failure, Handler, WorkerRow
from planrun.core.offers import Offer, OfferQuery, with_oldest
from planrun.core.pauses import find_pause
from planrun.core.why import Offering
from planrun.ledger.tx import Row, Tx, dump, load, one
from planrun.ledger.verbs.draining import end_drain
from planrun.ledger.verbs.ending import end_queued
from planrun.ledger.verbs.pausing import open_pauses
from planrun.ledger.verbs.recovering import sealer
from planrun.ledger.verbs.retention import remember

SLICE = 200
STOPPED = "offers_stopped_at_ms"  # in meta: 0 while a broker takes offers


def register(tx: Tx, worker: WorkerRow, *, may_shorten: bool) -> None:
    """Write down a worker, or its new state. One that goes by itself cannot be called back."""
    if worker.state != "ready":
        end_drain(tx, worker.incarnation)
    if worker.proof:
        tx.rows("put_proof", incarnation=worker.incarnation, digest=worker.proof)
    tx.rows(
        "put_worker",
        incarnation=worker.incarnation,
        name=worker.name,
        host=worker.host,
        namespaces=dump(worker.namespaces),
        slots=worker.slots,
        capabilities=dump(worker.capabilities),
        handlers=dump(worker.handlers),
        lock_file=worker.lock_file,
        lock_device=worker.lock_device,
        lock_inode=worker.lock_inode,
        pid=worker.pid,
        state=worker.state,
        wall_ms=tx.now.wall_ms,
    )
    remember(tx, worker.handlers, may_shorten=may_shorten)


def workers(tx: Tx, *, since_ms: int = 0) -> list[WorkerRow]:
    """Every worker seen since then (wall clock), the latest first."""
    return [worker_row(row) for row in tx.rows("workers", since_ms=since_ms)]


def workers_among(tx: Tx, names: Collection[str]) -> list[WorkerRow]:
    """Those of the names that are incarnations of workers."""
    return [worker_row(row) for row in tx.rows("workers_among", incarnations=dump(list(names)))]


def declared(tx: Tx) -> tuple[MachineClass, ...]:
    """The classes of machines that an operator has declared."""
    row = one(tx, "meta", k="machines")
    return () if row is None else load(row["v"], tuple[MachineClass, ...])


def declare(tx: Tx, classes: Sequence[MachineClass]) -> None:
    """These and no others, from now on."""
    tx.rows("set_meta", k="machines", v=dump(classes))


def rates(tx: Tx) -> dict[str, float]:
    """Jobs per second, by kind, where there is a limit."""
    return {row["kind"]: row["per_s"] for row in tx.rows("rates")}


def set_rate(tx: Tx, kind: str, per_s: float | None) -> None:
    """Change the limit of a kind; None: it has none."""
    if per_s is None:
        tx.rows("drop_meta", k=f"rate:{kind}")
    else:
        tx.rows("set_meta", k=f"rate:{kind}", v=per_s)


def say_offering(tx: Tx, *, goes_on: bool | None) -> None:
    """Whether a broker takes offers from now on; None: there is none."""
    if goes_on is None:
        tx.rows("drop_meta", k=STOPPED)
    elif goes_on or (offering(tx, "") or Offering()).stopped_at_ms is None:
        tx.rows("set_meta", k=STOPPED, v=0 if goes_on else tx.now.wall_ms)


def offering(tx: Tx, kind: str) -> Offering | None:
    """How jobs of this kind are offered; None: by no broker."""
    stopped = one(tx, "meta", k=STOPPED)
    if stopped is None:
        return None
    return Offering(stopped_at_ms=stopped["v"] or None, per_s=rates(tx).get(kind))


def running(tx: Tx) -> dict[str, int]:
    """How many leases each worker holds."""
    return {row["incarnation"]: row["jobs"] for row in tx.rows("taken")}


def worker(tx: Tx, incarnation: str) -> WorkerRow | None:
    """One worker process."""
    row = one(tx, "worker", incarnation=incarnation)
    return worker_row(row) if row is not None else None


def worker_row(row: Row) -> WorkerRow:
    plain: dict[str, Any] = {
        **row,
        "namespaces": _told(row["namespaces"], tuple[str, ...]),
        "capabilities": _told(row["capabilities"], tuple[str, ...]),
        "handlers": _told(row["handlers"], tuple[Handler, ...]),
    }
    return WorkerRow(**plain)


@lru_cache(maxsize=1024)
def _told(text: str, shape: Any) -> Any:
    """What workers say of themselves, which is the same in each of their rows, whenever one is read."""
    return load(text, shape)


def offers(tx: Tx, query: OfferQuery) -> list[Offer]:
    """Jobs that such a worker could run, most urgent first, then oldest first. Hints only."""
    found = _waiting(tx, query, "offers", query.limit)
    found.sort(key=lambda row: (-row["priority"], row["id"]))
    offer = partial(_offer, sealer(tx))
    line = [offer(row) for row in found[: query.limit]]
    if query.oldest_at is None or not line:
        return line
    oldest = min(_waiting(tx, query, "oldest", 1), key=lambda row: int(row["id"]))
    return with_oldest(line, offer(oldest), query.oldest_at)[: query.limit]


def _waiting(tx: Tx, query: OfferQuery, statement: str, limit: int) -> list[Row]:
    """The first of each set of jobs that such a worker could run."""
    capabilities = dump(query.capabilities)
    pauses = open_pauses(tx)
    return [
        row
        for namespace in query.namespaces
        for handler in query.handlers
        if not handler.missing and find_pause(pauses, namespace=namespace, kind=handler.kind) is None
        for row in tx.rows(
            statement,
            namespace=namespace,
            kind=handler.kind,
            version=handler.version,
            capabilities=capabilities,
            limit=limit,
        )
    ]


def _offer(seal: Callable[..., str], row: Row) -> Offer:
    plain = {name: value for name, value in row.items() if name != "id"}
    return Offer(**plain, seal=seal(row["job_id"], row["attempt"]))


class Fleet:
    """The workers that were seen lately, as one transaction sees them; read when first asked."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._missing: dict[tuple[str, str, str, tuple[str, ...]], str | None] = {}

    def missing_for(self, namespace: str, kind: str, version: str, needs: Sequence[str]) -> str | None:
        """What the fleet lacks to run such a job, in one sentence; None if it can, or if no fleet is known."""
        asked = (namespace, kind, version, tuple(needs))
        if asked not in self._missing:
            self._missing[asked] = self._find(*asked)
        return self._missing[asked]

    @cached_property
    def _known(self) -> list[WorkerRow]:
        return workers(self._tx, since_ms=self._tx.now.wall_ms - routing.CAPABILITY_TTL_MS)

    @cached_property
    def _declared(self) -> tuple[MachineClass, ...]:
        return declared(self._tx)

    def _find(self, namespace: str, kind: str, version: str, needs: Sequence[str]) -> str | None:
        found = routing.find_route(
            self._known,
            namespace=namespace,
            kind=kind,
            version=version,
            needs=needs,
            now_ms=self._tx.now.wall_ms,
            declared=self._declared,
        )
        return found.sentence if isinstance(found, routing.Missing) else None


def _came(tx: Tx, waited_ms: int, waited_ms_max: int | None) -> dict[str, int]:
    """When jobs came that have waited so long."""
    after_ms = 0 if waited_ms_max is None else tx.now.wall_ms - waited_ms_max
    return {"after_ms": after_ms, "before_ms": tx.now.wall_ms - waited_ms}


def unsupported(tx: Tx, *, waited_ms: int, waited_ms_max: int | None) -> list[Row]:
    """What has waited so long and no known worker could ever run: kind, version, namespace and needs.

    Looks at the whole line, so it is asked of a reader and never holds up a heartbeat.
    """
    groups = tx.rows("waiting_sets", **_came(tx, waited_ms, waited_ms_max))
    fleet = Fleet(tx)
    return [
        {name: group[name] for name in ("kind", "version", "namespace", "needs")}
        for group in groups
        if fleet.missing_for(*_asked(group)) is not None
    ]


def end_unsupported(tx: Tx, groups: Sequence[Row], *, waited_ms: int, waited_ms_max: int | None) -> int:
    """Fail the jobs of these groups, if no worker has come that could run them."""
    ended = 0
    fleet = Fleet(tx)
    for group in groups:
        missing = fleet.missing_for(*_asked(group))
        if missing is None:
            continue
        for row in tx.rows("waiting_jobs", **_came(tx, waited_ms, waited_ms_max), limit=SLICE, **group):
            error = Failure(message=missing, code="unsupported")
            end_queued(tx, row["job_id"], State.FAILED, Reason.UNSUPPORTED, error)
            ended += 1
    return ended


def _asked(group: Row) -> tuple[str, str, str, tuple[str, ...]]:
    return group["namespace"], group["kind"], group["version"], load(group["needs"], tuple[str, ...])
