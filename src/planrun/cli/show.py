"""`planrun show`."""

from __future__ import annotations

from collections.abc import Sequence

from planrun.cli.asking import AsJson, JobId, Url, with_client
from planrun.cli.exits import Exit
from planrun.cli.printing import print_facts, print_json, print_table
from planrun.cli.wait import answer_facts, value_text
from planrun.cli.words import failure_in_words, job_document, moment, state_in_words
from planrun.client import Answer, AsyncClient
from planrun.clock import Instant, SystemClock
from planrun.core.durations import span
from planrun.core.errors import ResultGone, WaitTimeout
from planrun.core.life import State
from planrun.core.messages import AttemptRow, JobRow
from planrun.core.names import token_shown
from planrun.core.why import Why

Seen = tuple[JobRow, Sequence[AttemptRow], Why, Answer | None]


def show(job: JobId, /, *, json: AsJson = False, url: Url = None) -> int:
    """Show one job: where it is, what it has used up, its attempts and its answer.

    For example:

      planrun show my-request-7
      planrun show my-request-7 --json | jq .attempts
    """

    async def run(client: AsyncClient) -> Seen:
        row = await client.show(job)
        attempts = await client.attempts(row.job_id)
        why = await client.why(row.job_id)
        try:
            return row, attempts, why, await client.result(row.job_id)
        except (WaitTimeout, ResultGone):
            return row, attempts, why, None

    row, attempts, why, answer = with_client(url, run)
    now = SystemClock.open_system().now()
    if json:
        document = {"attempts": attempts, "answer": None if answer is None else answer.as_dict()}
        print_json(job_document(row, now) | document)
    else:
        print_facts(_facts(row, why, answer, now))
        if attempts:
            print()
            _print_attempts(attempts, now)
    return Exit.FINISHED


def _facts(row: JobRow, why: Why, answer: Answer | None, now: Instant) -> Sequence[tuple[str, str]]:
    facts = [
        ("job", row.job_id),
        ("kind", f"{row.kind} {row.version}"),
        ("namespace", row.namespace),
        ("key", row.key or ""),
        ("state", state_in_words(row, now)),
        ("why", why.sentence if row.state is State.QUEUED else ""),
        (
            "budgets",
            f"failures {row.failures} of {row.max_attempts}, losses {row.losses} of {row.max_losses}, "
            f"hand-backs {row.handbacks} of {row.max_handbacks}",
        ),
        ("priority", str(row.priority or "")),
        ("needs", ", ".join(row.needs)),
        ("created", moment(row.created_at_ms, now)),
        ("ended", "" if row.ended_at_ms is None else moment(row.ended_at_ms, now)),
        ("deadline", "" if row.deadline_at_ms is None else moment(row.deadline_at_ms, now)),
        ("retry of", row.retry_of or ""),
        (
            "undelivered",
            f"{row.undelivered} routes have not confirmed the answer; it is sent again" if row.undelivered else "",
        ),
        *((f"input {name}", uri) for name, uri in row.inputs.items()),
        ("params", value_text(row.params) if row.params else ""),
    ]
    if row.checkpoint is not None:
        facts.append(("checkpoint", f"number {row.checkpoint.seq} of attempt {row.checkpoint.attempt}"))
    if answer is not None:
        facts += answer_facts(answer)
    elif row.ended_at_ms is not None:
        facts.append(("result", "no longer kept"))
    return facts


def _print_attempts(attempts: Sequence[AttemptRow], now: Instant) -> None:
    print_table(
        ("attempt", "token", "worker", "granted", "took", "outcome", "error"),
        (
            (
                str(attempt.attempt),
                str(token_shown(attempt.token)),
                attempt.worker or attempt.incarnation,
                moment(attempt.granted_at_ms, now),
                span((attempt.ended_at_ms or now.wall_ms) - attempt.granted_at_ms),
                _outcome(attempt),
                "" if attempt.error is None else failure_in_words(attempt.error),
            )
            for attempt in attempts
        ),
    )


def _outcome(attempt: AttemptRow) -> str:
    if attempt.outcome is None:
        return "running" if attempt.ended_at_ms is None else "ended"
    return str(attempt.outcome)
