"""What one submit says: checked at the door, made absolute, and hashed.

Two digests, for two questions:

* `request_hash`: is this the same *call*? Everything that was asked of the job, and nothing that may
  change by itself, so that a retry is recognised even when the input file is gone by then. Who asks,
  and who wants the answer, is no part of it.
* `content_hash`: is this the same *work*? Kind, version, params and inputs with their fingerprints
  (size and mtime), so that a replaced file is other content.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict, TypeGuard
from urllib.parse import unquote

from planrun.client.arguments import check_text, is_seconds
from planrun.core.errors import Invalid
from planrun.core.inputs import FETCHED, check_fetched, split
from planrun.core.messages import SubmitRequest
from planrun.core.names import CONTENT_KEY, digest
from planrun.core.requests import (
    PARAMS_BYTES_MAX,
    check_id,
    check_max_attempts,
    check_name,
    check_need,
    check_priority,
    is_utf8,
)
from planrun.core.routes import check_route
from planrun.core.values import check_json


class SubmitOptions(TypedDict, total=False):
    """The options of a submit, as keyword arguments; meanings and defaults are those of `Submit`."""

    version: str
    inputs: Mapping[str, str | Path]
    params: Mapping[str, Any]
    key: str | None
    request_id: str | None
    namespace: str
    needs: Sequence[str]
    priority: int
    delay_s: float
    max_attempts: int
    deadline_s: float | None
    subscribers: Sequence[str]
    publish: Sequence[str]
    who: str


@dataclass(frozen=True, slots=True)
class Submit:
    """One job to submit.

    Attributes:
        kind: What to run, as declared with `@job`.
        version: Exact version of the kind.
        inputs: Input name → local file, a path or a `file:` URI, which must exist when it is submitted; or an `https:`
            address, or the `s3:` one of a result in the fleet's store, which the worker fetches where its operator
            allows that. What lies at an address must not change: it is the address that makes the content. A local file
            is the same content while its path, size and time of change (mtime) are, and is read when the job runs: give
            what changes another name, above all where a copy keeps that time (`cp -p`, `rsync -t`).
        params: JSON values: text, whole numbers, finite floats, booleans, None, lists and dicts with text keys.
        key: The operation that is asked for. Whoever submits the same kind, version and key joins the running job or
            gets the stored answer; other content under it is a Conflict. `"content"`: made from kind, version, params
            and inputs. None: never joined.
        request_id: Identity of this call; give it to be able to repeat a call whose reply was lost, also after a
            restart. None: a fresh one, equal on the retries that the client makes itself.
        namespace: Whose job it is. Keys and request ids of two namespaces never meet.
        needs: Capabilities beside those that the kind declares.
        priority: Higher runs earlier.
        delay_s: Not before so many seconds from now.
        max_attempts: How often the job may fail by its own fault before it ends as exhausted.
        deadline_s: The job fails if it has not ended so many seconds from now.
        subscribers: Routes that get the answer, `webhook:https://…` or `command:PROGRAM ARGUMENT…`.
        publish: Public names such as `campaign-42/master.mp4`, or `campaign-42/master.mp4=OUTPUT` if the job returns
            several files: once it has finished a copy stands there, unless one that asked for the name later has, too.
        who: Who asks, for the history.
    """

    kind: str
    version: str = "v1"
    inputs: Mapping[str, str | Path] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    key: str | None = None
    request_id: str | None = None
    namespace: str = "default"
    needs: Sequence[str] = ()
    priority: int = 0
    delay_s: float = 0
    max_attempts: int = 4
    deadline_s: float | None = None
    subscribers: Sequence[str] = ()
    publish: Sequence[str] = ()
    who: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """A checked submit, ready for the ledger.

    Attributes:
        request: What to say to the ledger.
        unreadable: Why an input cannot be read, empty if all can. It refuses a new request; a request that the ledger
            already knows is still the same call.
    """

    request: SubmitRequest
    unreadable: str


def ask(submit: Submit, *, request_id: str, wall_ms: int) -> Asked:
    """Check a submit and turn it into a request.

    Args:
        request_id: Used if the submit names none.
        wall_ms: Now, UTC milliseconds: where `deadline_s` counts from.

    Raises:
        Invalid: Something cannot be right; says what and what to do. Unreadable inputs are not raised, see `Asked`.
    """
    _check_names(submit)
    _check_numbers(submit)
    routes = (*submit.subscribers, *(f"publish:{name}" for name in submit.publish))
    for route in routes:
        check_route(route)
    params = dict(submit.params)
    check_json(params, bytes_max=PARAMS_BYTES_MAX, what="params")
    inputs = {name: _input(name, uri) for name, uri in submit.inputs.items()}
    fingerprints, unreadable = _fingerprints(inputs)
    wanted: dict[str, Any] = {
        "kind": submit.kind,
        "version": submit.version,
        "params": params,
        "inputs": {name: str(path) for name, path in inputs.items()},
    }
    content_hash = digest(wanted | {"inputs": fingerprints})
    request_hash = digest(
        wanted
        | {
            "key": submit.key,
            "needs": list(submit.needs),
            "priority": submit.priority,
            "delay_s": float(submit.delay_s),
            "max_attempts": submit.max_attempts,
            "deadline_s": None if submit.deadline_s is None else float(submit.deadline_s),
        }
    )
    request = SubmitRequest(
        request_id=submit.request_id or request_id,
        kind=submit.kind,
        version=submit.version,
        namespace=submit.namespace,
        inputs=wanted["inputs"],
        params=params,
        needs=tuple(submit.needs),
        content_hash=content_hash,
        request_hash=request_hash,
        key=content_hash if submit.key == CONTENT_KEY else submit.key,
        priority=submit.priority,
        delay_s=submit.delay_s,
        max_attempts=submit.max_attempts,
        deadline_at_ms=None if submit.deadline_s is None else wall_ms + int(submit.deadline_s * 1000),
        subscribers=routes,
        who=submit.who,
    )
    return Asked(request, unreadable)


def names_files(submit: Submit) -> bool:
    """Does it say anything of this box that `ask` has to look at?"""
    inputs = submit.inputs
    return isinstance(inputs, Mapping) and any(not _is_fetched(uri) for uri in inputs.values())


def _is_fetched(uri: str | Path) -> TypeGuard[str]:
    return isinstance(uri, str) and uri.partition("://")[0] in FETCHED


def _check_names(submit: Submit) -> None:
    named: list[tuple[str, object]] = [
        ("kind", submit.kind),
        ("version", submit.version),
        ("namespace", submit.namespace),
        *(("input name", name) for name in _mapping("inputs", submit.inputs)),
    ]
    _mapping("params", submit.params)
    _texts("subscribers", submit.subscribers)
    _texts("publish", submit.publish)
    for what, name in named:
        check_name(what, name)
    for need in _texts("needs", submit.needs):
        check_need(need)
    for what, text in (("key", submit.key), ("request_id", submit.request_id)):
        if text is not None:
            check_id(what, text)
    check_text("who", submit.who)


def _check_numbers(submit: Submit) -> None:
    check_priority(submit.priority)
    check_max_attempts(submit.max_attempts)
    if not is_seconds(submit.delay_s):
        raise Invalid(f"delay_s {submit.delay_s!r}: use seconds from now, 0 or more")
    if submit.deadline_s is not None and (not is_seconds(submit.deadline_s) or submit.deadline_s == 0):
        raise Invalid(f"deadline_s {submit.deadline_s!r}: use seconds from now, more than 0")


def _mapping(what: str, given: object) -> Mapping[Any, Any]:
    if type(given) is not dict and not isinstance(given, Mapping):
        raise Invalid(f"{what}: pass a dict, not {type(given).__name__}")
    return given


def _texts(what: str, given: object) -> Sequence[str]:
    if given == ():
        return ()
    # A lone string is a sequence of letters: certainly not what was meant.
    if isinstance(given, str) or not isinstance(given, Sequence) or not all(isinstance(text, str) for text in given):
        raise Invalid(f"{what}: pass a list of texts, not {given!r:.80}")
    return given


def _input(name: str, uri: str | Path) -> Path | str:
    """A file of this box, or an address that the worker fetches."""
    if _is_fetched(uri):
        check_fetched(name, uri)
        return uri
    return _local_path(name, uri)


def _local_path(name: str, uri: str | Path) -> Path:
    if isinstance(uri, os.PathLike):
        uri = os.fspath(uri)
    if not isinstance(uri, str) or not uri:
        raise Invalid(f"input {name}: pass a path or a file: URI, not {uri!r}")
    if uri.startswith("file:"):
        parts = split(uri)
        if parts is None or parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            raise Invalid(f"input {name}: {uri} names no file of this box; write file:///absolute/path")
        uri = unquote(parts.path)
    elif "://" in uri:
        raise Invalid(f"input {name}: {uri}: unknown scheme; use https:, or copy it to a local file and pass the path")
    if not is_utf8(uri):
        raise Invalid(f"input {name}: {uri!r}: the path is not valid UTF-8 text; rename the file")
    return Path(uri).expanduser().absolute()


def _fingerprints(inputs: Mapping[str, Path | str]) -> tuple[dict[str, list[Any]], str]:
    """For each input its path, size and mtime, or its address; and why the first unreadable file is so."""
    fingerprints: dict[str, list[Any]] = {}
    unreadable = ""
    for name, path in inputs.items():
        if isinstance(path, str):
            fingerprints[name] = [path]
            continue
        try:
            status = path.stat()
        except OSError as error:
            why = "there is no such file" if isinstance(error, FileNotFoundError) else (error.strerror or str(error))
            unreadable = unreadable or f"input {name}: {path}: {why}; nothing was submitted"
            continue
        fingerprints[name] = [str(path), status.st_size, status.st_mtime_ns]
        if stat.S_ISDIR(status.st_mode):
            why = "is a folder; pass one file, such as an archive of it"
        elif not stat.S_ISREG(status.st_mode):
            why = "is not a regular file; copy its content to one"
        elif not os.access(path, os.R_OK):
            why = "cannot be read by this user; change its permissions"
        else:
            continue
        unreadable = unreadable or f"input {name}: {path} {why}"
    return fingerprints, unreadable
