"""How the verbs of the ledger travel: one table for both ends, made of the contract's own signatures.

A verb is `POST /v1/ledger/<verb>` with its arguments as one JSON object; the reply is what the method returns. Unknown
fields are ignored, so that either end may be newer; what they must agree on is the number of the protocol.

Duties are not in it: sweeping, announcing and collecting belong to whoever owns the ledger.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from planrun.core.access import Scope
from planrun.core.messages import Struct
from planrun.ledger.contract import Ledger

PROTOCOL = 1
PROTOCOL_HEADER = "planrun-protocol"
GENERATION_HEADER = "planrun-generation"  # the highest that the sender has met
BOOT_HEADER = "planrun-boot-ms"  # what the clock of leases read when the reply was written
POLL_S_MAX = 50.0
BODY_BYTES_MAX = 64 * 1024 * 1024  # a hundred submits with all the params that each may have
REPLY_S = 15.0  # more than the ledger itself takes to say that it is busy


class Way(StrEnum):
    """Which connections a verb uses: none waits behind one of another way."""

    URGENT = "urgent"  # what keeps a lease
    PLAIN = "plain"
    LONG = "long"  # waits for something to happen


@dataclass(frozen=True, slots=True)
class Verb:
    """Attributes:
    scopes: A token needs one of them.
    asked: The arguments, as one struct.
    reply: Type of the answer.
    repeatable: An answer that got lost may be asked for again without a word to the caller: it is the same one.
    """

    name: str
    scopes: tuple[Scope, ...]
    asked: type[msgspec.Struct]
    reply: Any
    way: Way = Way.PLAIN
    repeatable: bool = True

    def asking(self, *arguments: Any, **named: Any) -> msgspec.Struct:
        """A call of the method, as a struct."""
        given = dict(zip(self.asked.__struct_fields__, arguments, strict=False))
        return self.asked(**given, **named)


def arguments_of(asked: msgspec.Struct) -> dict[str, Any]:
    """A struct, as a call of the method."""
    return {name: getattr(asked, name) for name in asked.__struct_fields__}


class Poll(Struct, kw_only=True):
    """`changed`, by somebody who is not there in between.

    Attributes:
        seen: What the last reply said; empty: nothing was seen yet.
    """

    timeout_s: float
    about: str | None = None
    seen: str = ""


@dataclass(frozen=True, slots=True)
class Reach:
    """What a call is about, for whoever has to decide if its sender may ask it.

    Attributes:
        namespaces: Those that it names; None among them: all.
        jobs: Those that it names by their id.
        incarnations: Worker processes in whose name it speaks.
    """

    namespaces: tuple[str | None, ...]
    jobs: tuple[str, ...]
    incarnations: tuple[str, ...]


def reach_of(asked: msgspec.Struct) -> Reach:
    """Everything that the arguments name, however deep. A call that names nothing is about the whole ledger."""
    found = list(_fields(asked))
    many = [name for field, value in found if field == "namespaces" for name in value or ()]
    return Reach(
        namespaces=(*(value for field, value in found if field == "namespace"), *many),
        jobs=tuple(value for field, value in found if field == "job_id"),
        incarnations=tuple(value for field, value in found if field == "incarnation"),
    )


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield name, getattr(value, name)
            yield from _fields(getattr(value, name))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _fields(item)


_SUBMIT = (Scope.SUBMIT,)
_WORK = (Scope.WORK,)
_OPERATE = (Scope.OPERATE,)
_ANY = (Scope.SUBMIT, Scope.WORK)


def _verbs() -> Iterable[Verb]:
    for name in ("submit", "job", "result", "archived", "jobs", "attempts", "events", "outlook", "job_ids", "counts"):
        yield _verb(name, _SUBMIT)
    yield _verb("cancel", _SUBMIT, repeatable=False)
    for name in ("running", "drains", "pauses", "ended"):
        yield _verb(name, _SUBMIT)
    for name in ("open_jobs", "workers"):
        yield _verb(name, _ANY)
    for name in ("pause", "resume", "drain", "undrain"):
        yield _verb(name, _OPERATE, repeatable=False)
    for name in ("violations", "owed", "rates", "set_rate"):
        yield _verb(name, _OPERATE)
    for name in ("register", "worker", "offers", "stopped", "live_tokens", "settle", "bury_own"):
        yield _verb(name, _WORK)
    for name in ("grant", "grant_first", "renew", "standing", "held", "checkpoint", "release"):
        yield _verb(name, _WORK, way=Way.URGENT)
    yield Verb("changed", _ANY, Poll, str, way=Way.LONG)


def _verb(name: str, scopes: tuple[Scope, ...], *, way: Way = Way.PLAIN, repeatable: bool = True) -> Verb:
    method = getattr(Ledger, name)
    hints = typing.get_type_hints(method)
    asked = msgspec.defstruct(
        f"{name.title().replace('_', '')}Asked",
        [_field(each, hints[each.name]) for each in list(inspect.signature(method).parameters.values())[1:]],
        bases=(Struct,),
        kw_only=True,
        frozen=True,
    )
    return Verb(name, scopes, asked, hints["return"], way, repeatable)


def _field(parameter: inspect.Parameter, hint: Any) -> tuple[str, Any] | tuple[str, Any, Any]:
    if parameter.default is inspect.Parameter.empty:
        return parameter.name, hint
    return parameter.name, hint, parameter.default


VERBS: Mapping[str, Verb] = {verb.name: verb for verb in _verbs()}
