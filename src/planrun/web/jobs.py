"""Routes of jobs that answer at once."""

from __future__ import annotations

import msgspec
from starlette.responses import PlainTextResponse, Response

from planrun.client import Submit
from planrun.core.errors import Invalid
from planrun.web.asked import (
    BulkBody,
    EventsQuery,
    JobQuery,
    ListingQuery,
    LogQuery,
    LogsQuery,
    NoQuery,
    OperatorBody,
    SubmitBody,
    SubmitHeaders,
    check_reach,
)
from planrun.web.bodies import AttemptList, BulkReply, EventPage, JobPage, RetryReply, job_answer, submit_reply
from planrun.web.calls import Call
from planrun.web.replies import write_json

SUBMIT_TIMEOUT_S = 10.0  # for a busy ledger; then the caller asks again, with the same request id


async def submit(call: Call, *, query: NoQuery, headers: SubmitHeaders, body: SubmitBody) -> Response:
    """Hand a job in. 201: it is new; 200: no second job was made.

    Give a `request_id`, or the same as header `Idempotency-Key`, to be able to repeat a call whose reply was lost.
    """
    given = headers.idempotency_key
    if given is not None and body.request_id not in (None, given):
        raise Invalid("request_id and Idempotency-Key differ; send one of them, or the same text twice")
    call.need_namespace(body.namespace)
    asked = _submit_of(body if given is None else msgspec.structs.replace(body, request_id=given))
    [job] = await call.client.submit_many([asked], timeout_s=SUBMIT_TIMEOUT_S)
    status = 201 if job.disposition == "new" else 200
    return write_json(submit_reply(job), status=status, headers={"location": f"/v1/jobs/{job.id}"})


async def submit_bulk(call: Call, *, query: NoQuery, body: BulkBody) -> Response:
    """Hand up to 100 jobs in, all or none. Replies in the same order.

    Jobs that carry a `request_id` can simply be handed in again.
    """
    for one in body.jobs:
        call.need_namespace(one.namespace)
    jobs = await call.client.submit_many([_submit_of(one) for one in body.jobs], timeout_s=SUBMIT_TIMEOUT_S)
    return write_json(BulkReply(jobs=tuple(submit_reply(job) for job in jobs)))


async def list_jobs(call: Call, *, query: ListingQuery) -> Response:
    """A page of jobs, newest first. Without a namespace: of all that the token is for."""
    if query.namespace is not None:
        call.need_namespace(query.namespace)
    own = call.bearer.namespaces
    among = None if own is None else sorted(own)
    page = await call.client.list(namespaces=among, **msgspec.structs.asdict(query))
    return write_json(JobPage(jobs=page.jobs, before=page.before))


async def show(call: Call, *, query: JobQuery) -> Response:
    """One job as the ledger sees it now."""
    return write_json(await (await call.job(query.namespace)).show())


async def attempts(call: Call, *, query: JobQuery) -> Response:
    """The attempts of a job, oldest first."""
    job = await call.job(query.namespace)
    return write_json(AttemptList(attempts=tuple(await job.attempts())))


async def events(call: Call, *, query: EventsQuery) -> Response:
    """A page of the permanent history of a job, oldest first."""
    job = await call.job(query.namespace)
    rows = [row for row in await job.events() if query.after is None or row.id > query.after]
    page = rows[: query.limit]
    return write_json(EventPage(events=tuple(page), after=page[-1].id if len(page) < len(rows) else None))


async def logs(call: Call, *, query: LogsQuery) -> Response:
    """What the job printed; empty if nothing."""
    job = await call.job(query.namespace)
    return PlainTextResponse(await job.logs(attempt=query.attempt))


async def log(call: Call, *, query: LogQuery) -> Response:
    """What one attempt printed behind that many bytes, in base64: to follow it while it grows."""
    job = await call.job(query.namespace)
    return write_json(await call.client.log_piece(job.id, attempt=query.attempt, after=query.after))


async def result(call: Call, *, query: JobQuery) -> Response:
    """The answer of an ended job, without waiting."""
    job = await call.job(query.namespace)
    return write_json(job_answer(await job.result()))


async def why(call: Call, *, query: JobQuery) -> Response:
    """Why the job is not running yet, or where it is: the cause, and one sentence."""
    job = await call.job(query.namespace)
    return write_json(await call.client.why(job.id))


async def cancel(call: Call, *, query: JobQuery, body: OperatorBody) -> Response:
    """End the job for every caller, at once. An ended job stays as it is, and the reply says so."""
    job = await call.job(query.namespace)
    return write_json(await job.cancel(who=body.who, why=body.why))


async def retry(call: Call, *, query: JobQuery, body: OperatorBody) -> Response:
    """Submit a failed or canceled job again, as a new job. 409 while a retry of it is open: names that one."""
    old = await (await call.job(query.namespace)).show()
    job = await call.client.retry(old.job_id, who=body.who, why=body.why, timeout_s=SUBMIT_TIMEOUT_S)
    new = await job.show()
    reply = RetryReply(job_id=job.id, retry_of=old.job_id, key_taken=old.key is not None and new.key is None)
    return write_json(reply, status=201, headers={"location": f"/v1/jobs/{job.id}"})


def _submit_of(body: SubmitBody) -> Submit:
    check_reach(body)
    return Submit(**msgspec.structs.asdict(body))
