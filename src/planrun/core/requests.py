"""What a submit must be like, whoever sends it: a client checks its own call, an orchestrator what others send."""

from __future__ import annotations

from typing import TypeGuard

from planrun.core.errors import Invalid
from planrun.core.inputs import FETCHED, check_fetched
from planrun.core.messages import SubmitRequest, WorkerRow
from planrun.core.routes import check_route
from planrun.core.spelling import CAPABILITY_RULE, NAME_RULE, is_capability, is_name
from planrun.core.values import check_json

KEY_CHARS_MAX = 512
PRIORITY_MAX = 2**31 - 1
PARAMS_BYTES_MAX = 256 * 1024
SECONDS_MAX = 1e10
WORKER_STATES = ("ready", "draining", "broken", "gone")


def check_request(request: SubmitRequest) -> None:
    """
    Raises:
        Invalid: Something cannot be right; says what.
    """
    names = [("kind", request.kind), ("version", request.version), ("namespace", request.namespace)]
    for what, name in [*names, *(("input name", name) for name in request.inputs)]:
        check_name(what, name)
    for need in request.needs:
        check_need(need)
    ids = [("request_id", request.request_id), ("key", request.key), ("retry_of", request.retry_of)]
    for what, text in [*ids, ("content_hash", request.content_hash), ("request_hash", request.request_hash)]:
        if text is not None:
            check_id(what, text)
    for what, said in (("who", request.who), ("why", request.why)):
        if not is_utf8(said):
            raise Invalid(f"{what}: pass text, not {said!r:.80}")
    check_priority(request.priority)
    check_max_attempts(request.max_attempts)
    if not 0 <= request.delay_s < SECONDS_MAX:
        raise Invalid(f"delay_s {request.delay_s!r}: use seconds from now, 0 or more")
    for name, uri in request.inputs.items():
        if uri.partition("://")[0] in FETCHED:
            check_fetched(name, uri)
    for route in request.subscribers:
        check_route(route)
    check_json(request.params, bytes_max=PARAMS_BYTES_MAX, what="params")


def check_worker(row: WorkerRow) -> None:
    """
    Raises:
        Invalid: No worker is like that; says what.
    """
    if row.state not in WORKER_STATES:
        raise Invalid(f"state {row.state!r:.80}: use {', '.join(WORKER_STATES)}")


def check_name(what: str, name: object) -> None:
    """Of a kind, a version, a namespace or an input. Raises Invalid, as all of these."""
    if not isinstance(name, str) or not is_name(name):
        raise Invalid(f"{what} {name!r:.80}: use {NAME_RULE}")


def check_need(need: object) -> None:
    if not isinstance(need, str) or not is_capability(need):
        raise Invalid(f"need {need!r:.80}: use {CAPABILITY_RULE}")


def check_id(what: str, text: object) -> None:
    if not (isinstance(text, str) and 0 < len(text) <= KEY_CHARS_MAX and is_utf8(text)):
        raise Invalid(f"{what}: pass text of 1 to {KEY_CHARS_MAX} characters, not {text!r:.80}")


def check_priority(priority: object) -> None:
    if not is_whole(priority) or not -PRIORITY_MAX <= priority <= PRIORITY_MAX:
        raise Invalid(f"priority {priority!r:.80}: use a whole number between -{PRIORITY_MAX} and {PRIORITY_MAX}")


def check_max_attempts(count: object) -> None:
    if not is_whole(count) or not 1 <= count <= PRIORITY_MAX:
        raise Invalid(f"max_attempts {count!r:.80}: use a whole number, at least 1")


def is_utf8(text: str) -> bool:
    """Can it be stored and sent? A lone surrogate or a NUL cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def is_whole(number: object) -> TypeGuard[int]:
    """A whole number, and no truth value."""
    return isinstance(number, int) and not isinstance(number, bool)
