"""Manifests: the answer of a job, written down in the store before anybody hears of it.

The first one that stands is the answer, whichever history of the ledger wrote it: the one before a backup was
restored, or the one after it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from planrun.core.life import Outcome
from planrun.core.messages import Result, Struct
from planrun.core.names import is_name

__all__ = ["Closing", "Manifest", "Subscriber", "manifest_key", "manifest_of", "named_in"]

_FOLDER = "results"
_SUFFIX = ".json"


class Subscriber(Struct, kw_only=True):
    """A route that gets the answer. `seq`: the place of who asked for a public name, in the order of all who did."""

    route: str
    seq: int | None = None


class Manifest(Struct, kw_only=True):
    """How a job ended, and what a ledger that has never heard of the job needs to answer for it.

    Attributes:
        outcome: Of the attempt that won; None: it ended while it waited.
        subscribers: Those who were to be told when it was written; whoever asks later is told by the ledger.
    """

    result: Result
    outcome: Outcome | None = None
    inputs: dict[str, str]
    params: dict[str, Any]
    needs: tuple[str, ...] = ()
    content_hash: str
    retry_of: str | None = None
    priority: int = 0
    created_at_ms: int
    request_id: str | None = None
    request_hash: str | None = None
    subscribers: tuple[Subscriber, ...] = ()


class Closing(Struct, kw_only=True):
    """Jobs that have ended and whose answer nobody has got, as one look.

    Attributes:
        generation, n: How far the ledger had counted. A copy that lacks one of these ends has counted less.
        last: Behind which the next look goes on; 0: there are no more.
    """

    generation: int
    n: int
    manifests: tuple[Manifest, ...] = ()
    last: int = 0


def manifest_key(namespace: str, job_id: str) -> str:
    """Where the manifest of a job stands."""
    return f"{namespace}/{_FOLDER}/{job_id}{_SUFFIX}"


def named_in(key: str) -> str | None:
    """The job whose manifest has this key; None: it is another object's."""
    match key.split("/"):
        case [namespace, folder, name] if is_name(namespace) and folder == _FOLDER and name.endswith(_SUFFIX):
            return name.removesuffix(_SUFFIX)
        case _:
            return None


def manifest_of(key: str, data: bytes) -> Manifest | None:
    """What was written down under this key; None: that is no manifest, or another job's."""
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except msgspec.MsgspecError:
        return None
    return manifest if key == manifest_key(manifest.result.namespace, manifest.result.job_id) else None
