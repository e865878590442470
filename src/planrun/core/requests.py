"""What a submit must be like, whoever sends it: a client checks its own call, an orchestrator what others send."""

from __future__ import annotations

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
    _check_texts(request)
    if abs(request.priority) > PRIORITY_MAX or not 1 <= request.max_attempts <= PRIORITY_MAX:
        raise Invalid(f"priority and max_attempts: use whole numbers up to {PRIORITY_MAX}, and 1 attempt or more")
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


def _check_texts(request: SubmitRequest) -> None:
    named = [("kind", request.kind), ("version", request.version), ("namespace", request.namespace)]
    for what, name in [*named, *(("input name", name) for name in request.inputs)]:
        if not is_name(name):
            raise Invalid(f"{what} {name!r:.80}: use {NAME_RULE}")
    for need in request.needs:
        if not is_capability(need):
            raise Invalid(f"need {need!r:.80}: use {CAPABILITY_RULE}")
    ids = [("request_id", request.request_id), ("key", request.key), ("retry_of", request.retry_of)]
    ids += [("content_hash", request.content_hash), ("request_hash", request.request_hash)]
    for what, text in ids:
        if text is not None and not (0 < len(text) <= KEY_CHARS_MAX and "\0" not in text):
            raise Invalid(f"{what}: pass text of 1 to {KEY_CHARS_MAX} characters, not {text!r:.80}")
    for what, said in (("who", request.who), ("why", request.why)):
        if "\0" in said:
            raise Invalid(f"{what}: pass text, not {said!r:.80}")
