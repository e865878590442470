"""What a token for some namespaces reaches of the ledger itself.

A job of another namespace is *unknown*: its id is replaced by one that no job has, so that the ledger answers exactly
as it would to a guess. So are the incarnations of workers that also run the jobs of others. Where a call names no
namespace, it is asked of the token's own. What is about the whole fleet takes a token for all namespaces.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any, TypeVar

import msgspec

from planrun.core.listing import ListQuery
from planrun.core.machines import MachineClass
from planrun.core.messages import WorkerRow
from planrun.core.why import Outlook
from planrun.ledger.contract import Ledger
from planrun.ledger.wire import Poll, reach_of
from planrun.web.calls import Call

NOBODY = "0" * 32
FLEET_WIDE = frozenset({"drain", "undrain", "drains", "ended", "violations", "owed", "rates", "set_rate"})
LOOKS = frozenset({"job", "archived", "job_ids"})  # asked in one namespace after another
KNOWN_MAX = 100_000

Ask = Callable[[msgspec.Struct], Awaitable[Any]]
Machine = TypeVar("Machine", WorkerRow, MachineClass)


class Borders:
    """Which namespace a job or a worker belongs to: asked once, for neither ever moves."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._jobs: dict[str, frozenset[str]] = {}
        self._workers: dict[str, frozenset[str]] = {}

    async def strange(self, own: Collection[str], jobs: Iterable[str], incarnations: Iterable[str]) -> set[str]:
        """Those ids that do not belong to these namespaces alone."""
        found = set()
        for job in dict.fromkeys(jobs):
            if not (await self._known(self._jobs, job, self._of_job)) <= set(own):
                found.add(job)
        for incarnation in dict.fromkeys(incarnations):
            if not (await self._known(self._workers, incarnation, self._of_worker)) <= set(own):
                found.add(incarnation)
        return found

    async def _known(
        self, known: dict[str, frozenset[str]], name: str, look: Callable[[str], Awaitable[frozenset[str]]]
    ) -> frozenset[str]:
        if name not in known:
            namespaces = await look(name)
            if not namespaces:
                return namespaces  # not there, yet
            if len(known) >= KNOWN_MAX:
                known.clear()
            known[name] = namespaces
        return known[name]

    async def _of_job(self, job_id: str) -> frozenset[str]:
        row = await self._ledger.job(None, job_id)
        return frozenset() if row is None or row.job_id != job_id else frozenset({row.namespace})

    async def _of_worker(self, incarnation: str) -> frozenset[str]:
        row = await self._ledger.worker(incarnation)
        return frozenset() if row is None else frozenset(row.namespaces)


async def ask_within(call: Call, borders: Borders, verb: str, asked: msgspec.Struct, ask: Ask) -> Any:
    """Ask the ledger for as much as the caller's token reaches.

    Args:
        ask: The verb itself.

    Raises:
        Refused: The call names a namespace that is not the token's, or is about the whole fleet.
    """
    own = call.bearer.namespaces
    if own is None:
        return await ask(asked)
    if verb in FLEET_WIDE:
        call.need_namespace("")
    reach = reach_of(asked)
    named = [name for name in reach.namespaces if name is not None]
    if verb not in LOOKS and verb != "cancel":
        for name in named:
            call.need_namespace(name)
    jobs = reach.jobs if not isinstance(asked, Poll) else ()
    workers = reach.incarnations if not isinstance(asked, Poll) else ()
    about = [asked.about] if isinstance(asked, Poll) and asked.about else []
    strange = await borders.strange(own, [*jobs, *about], [*workers, *about])
    if verb == "cancel" and not own.issuperset(named):
        strange.update(jobs)  # in the namespace that it names a request id may be one, too
    if verb == "register" and strange:
        call.need_namespace("")  # somebody else's worker
    if verb == "register":
        asked = msgspec.structs.replace(asked, may_shorten=False)  # a kind has results of other namespaces, too
    asked = _without(asked, strange)
    if verb in LOOKS or verb == "counts":
        return await _ask_each(verb, asked, ask, sorted(own if not named else own & set(named)))
    return _seen(verb, await ask(_narrowed(asked, own)), call)


async def _ask_each(verb: str, asked: Any, ask: Ask, namespaces: Iterable[str]) -> Any:
    found = [await ask(msgspec.structs.replace(asked, namespace=one)) for one in namespaces]
    if verb == "counts":
        return sum((Counter(each) for each in found), Counter())
    if verb == "job_ids":
        return sorted(job_id for each in found for job_id in each)[: asked.limit]
    return next((each for each in found if each is not None), None)


def _without(value: Any, strange: Collection[str]) -> Any:
    """The same, with these ids replaced wherever they stand."""
    if not strange:
        return value
    if isinstance(value, msgspec.Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        ids = {name for name in fields if name in ("job_id", "incarnation", "about") and fields[name] in strange}
        return type(value)(**{name: NOBODY if name in ids else _without(fields[name], strange) for name in fields})
    if isinstance(value, list | tuple):
        return type(value)(_without(each, strange) for each in value)
    return value


def _narrowed(asked: msgspec.Struct, own: Collection[str]) -> msgspec.Struct:
    """A listing, of the token's own namespaces."""
    query = getattr(asked, "query", None)
    if not isinstance(query, ListQuery):
        return asked
    among = sorted(own if query.namespaces is None else set(own) & set(query.namespaces))
    return msgspec.structs.replace(asked, query=msgspec.structs.replace(query, namespaces=tuple(among)))


def _seen(verb: str, answer: Any, call: Call) -> Any:
    """Of what is about many, what is about the caller's namespaces."""
    match verb:
        case "open_jobs":
            return [row for row in answer if call.bearer.sees(row.namespace)]
        case "outlook" if answer is not None:
            return _outlook(answer, call)
        case "pauses":
            return [row for row in answer if not row.namespace or call.bearer.sees(row.namespace)]
        case "workers":
            return [_shown(row, call) for row in answer if call.bearer.sees_any(row.namespaces)]
    return answer


def _outlook(outlook: Outlook, call: Call) -> Outlook:
    """What decides about the caller's own job."""
    workers = tuple(_shown(row, call) for row in outlook.workers if call.bearer.sees_any(row.namespaces))
    names = {row.incarnation for row in workers}
    return msgspec.structs.replace(
        outlook,
        workers=workers,
        declared=tuple(_shown(each, call) for each in outlook.declared if call.bearer.sees_any(each.namespaces)),
        taken={name: jobs for name, jobs in outlook.taken.items() if name in names},
    )


def _shown(row: Machine, call: Call) -> Machine:
    """A worker, or a class of them, without whom else it works for."""
    own = tuple(name for name in row.namespaces if call.bearer.sees(name))
    return msgspec.structs.replace(row, namespaces=own)
