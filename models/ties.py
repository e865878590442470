"""What of the code each model speaks of: the guards that it leaves out, and the statements that move a job.

Models are written by hand, and the code changes: tests/tidy/test_models.py holds that what is named here is there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

CODE = "src/planrun"
SQL = "ledger/sql/sqlite"
ATTEMPT, NAMES, LEASE = "worker/attempt.py", "core/names.py", "core/lease.py"
BEATS, KEEPER = "orchestrator/beats.py", "worker/keeper.py"
ENDING, HOLDING = "ledger/verbs/ending.py", "ledger/verbs/holding.py"
OWNER = "running' AND attempt = :attempt AND token = :token"
STRICT = "coalesce((SELECT v FROM meta WHERE k = 'strict'), 0)"

# What in the code carries each guard that a model leaves out: file below CODE, and text that stands there once.
CARRIED_BY: Mapping[str, tuple[tuple[str, str], ...]] = {
    "WITHOUT_GRANT_FENCE": (
        (f"{SQL}/grant.sql", "AND state = 'queued'"),
        (f"{SQL}/grant.sql", "AND attempt = :attempt"),
        (HOLDING, 'if request.attempt != job["attempt"]:'),
        (HOLDING, 'if job["state"] == State.RUNNING:'),
        ("ledger/migrations/sqlite/0001_initial.sql", "  PRIMARY KEY(job_id,attempt)) STRICT"),
    ),
    "WITHOUT_NEXT_ATTEMPT": ((f"{SQL}/requeue.sql", "attempt        = attempt + 1"),),
    "WITHOUT_REQUEUE_FENCE": (
        (f"{SQL}/requeue.sql", f"state = '{OWNER}"),
        (ENDING, "not owns(job, request.lease):\n        again"),
    ),
    "WITHOUT_SETTLE_FENCE": (
        (f"{SQL}/end_running.sql", f"state = '{OWNER}"),
        (ENDING, "not owns(job, request.lease):\n        return _settled_before(tx, request)"),
    ),
    "WITHOUT_CANCEL_FENCE": (
        (f"{SQL}/end_queued.sql", "AND state = 'queued' AND attempt = :attempt"),
        (ENDING, '    if job["ended_at_ms"] is not None:\n        return CancelReply'),
    ),
    "WITHOUT_ATTEMPT_KEYS": ((NAMES, "{attempt}-{token:x}/"), (ENDING, "if not output.key.startswith(own):")),
    "WITHOUT_FENCE_CHECK": ((ATTEMPT, "await self._fence(paths)"),),
    "WITHOUT_REPEATED_SETTLE": (
        (ENDING, 'row["token"] == lease.token and row["outcome"] == request.outcome:'),
        (ENDING, 'result["token"] == lease.token'),
    ),
    "WITHOUT_WINNER_KEPT": (
        ("ledger/verbs/duties.py", 'if row["winner"] == row["token"]:'),
        ("ledger/verbs/duties.py", "keep += [output.key for output in outputs]"),
    ),
    "WITHOUT_OUTBOX": ((ENDING, "    )\n    owe_answer(tx, job_id)\n"),),
    "WITHOUT_SWEEPER": (("orchestrator/expiry.py", "await self._ledger.expire(stamp_ms=now_ms)"),),
    "WITHOUT_REOFFER": (("orchestrator/dispatcher.py", "await self._recall(lane, now_ms)"),),
    "WITHOUT_INBOX": (("inbox.py", "ON CONFLICT DO NOTHING"),),
    "ANNOUNCE_BEFORE_SETTLE": ((ENDING, "    _end_running(tx, lease, state, verdict)\n    _conclude("),),
    "SETTLE_BEFORE_UPLOAD": ((ATTEMPT, "outputs = await self._store_outputs(ran.outputs)"),),
    "WITHOUT_GENERATION": (
        (HOLDING, 'token_of(row["generation"], row["n"])'),
        (NAMES, "_GENERATION_SHIFT = 40"),
    ),
    "WITHOUT_MANIFEST": (
        (f"{SQL}/end_running.sql", f"closing        = {STRICT}"),
        (f"{SQL}/end_queued.sql", f"closing = {STRICT}"),
        ("ledger/verbs/closing.py", "if stored_result(tx, result.job_id) == result:"),
        (f"{SQL}/garbage.sql", "AND j.closing = 0"),
    ),
    "WITHOUT_STICKY_EXPIRY": (
        (LEASE, "if self.expired or now_ms >= self.trusted_until_ms:"),
        (KEEPER, "holding.belief.confirmed(sent_ms=sent_ms, now_ms=now_ms)"),
    ),
    "WITHOUT_SENDING_TIME": (
        (LEASE, "return self._extended(sent_ms)"),
        (KEEPER, ".confirmed(sent_ms=sent_ms,"),
    ),
    "WITHOUT_EXTEND": (
        (HOLDING, '    tx.rows("extend", **_fence(lease), now_ms=tx.now.boot_ms)'),
        (f"{SQL}/extend.sql", "max(lease_until_ms, :now_ms + lease_ms)"),
        (HOLDING, "beats=dump(beats), now_ms=tx.now.boot_ms"),
    ),
    "WITHOUT_BARRIER": ((BEATS, "await self._transport.mark(marker)"),),
    "WITHOUT_STAMP": (
        (BEATS, "self._expiry.end(stamp_ms=made_ms,"),
        (f"{SQL}/expired.sql", "AND lease_until_ms <= :stamp_ms"),
    ),
    "WITHOUT_SOJOURN": ((BEATS, "if not self._is_whole() or self._is_hopeless(now_ms):"),),
    "WITHOUT_REARM": ((BEATS, "await self._ledger.rearm(beat_epoch=epoch)"),),
    "WITHOUT_LONGER_LEASE": ((LEASE, "return lease_ms + lease_ms * 2 // 1000 + 2_000"),),
}
NO_GUARDS = {
    "WITHOUT_S4": "a claim",
    "WITHOUT_BROKER": "a way that a fleet has, and a box has not",
    "CLOCK_STOPS": "nothing guards against it",
    "TTL=4": "the queue of heartbeats drops none",
}
# What a model says for a clause of the statement of that name.
CLAUSES = {
    r"state == (\w+)": r"state = '\1'",
    r"attempt == a": "attempt = :attempt",
    r"holder == t": "token = :token",
    r"!ENDED": "ended_at_ms IS NULL",
    r"closing": "closing = 1",
    r"spent < BUDGET": (
        "failures + :failures < max_attempts; losses + :losses < max_losses; handbacks + :handbacks <= max_handbacks"
    ),
}
_MOVES_A_JOB = re.compile(r"UPDATE job\s+SET state\s+=")
_SPOKEN_OF = re.compile(r"(state|attempt|token|ended_at_ms|closing|failures|losses|handbacks)\b")


def untied(sources: Mapping[str, str]) -> list[str]:
    """What carries a guard, and does not stand in the code just once. `sources`: path below CODE → text."""
    return [
        f"{guard}: {file}: {text}"
        for guard, places in CARRIED_BY.items()
        for file, text in places
        if sources.get(file, "").count(text) != 1
    ]


def fences_of_code(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Statement that moves a job → those clauses of its WHERE of which a model can speak."""
    return {
        name.removeprefix(f"{SQL}/").removesuffix(".sql"): _clauses(text)
        for name, text in sources.items()
        if name.startswith(SQL) and _MOVES_A_JOB.search(text)
    }


def _clauses(statement: str) -> set[str]:
    bare = re.sub(r"--[^\n]*", "", statement)
    while bare != (bare := re.sub(r"\([^()]*\)", "", bare)):  # the fence of the job's own row stands in no parentheses
        pass
    where = bare.partition("WHERE")[2].partition("RETURNING")[0]
    return {clause for each in where.split(" AND ") if _SPOKEN_OF.match(clause := " ".join(each.split()))}


def fences_of_models(models: Iterable[str]) -> dict[str, set[str]]:
    """Step that moves the job → its fence, in the words of SQL. A step asks its own fence, and is taken by somebody."""
    found = {}
    for text in models:
        bare = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        # Where a fence can be left out, the whole one comes last.
        fences = dict(re.findall(r"#define may_(\w+)\([^)]*\) \((.*)\)", bare))
        for name, body in re.findall(r"^inline (\w+)\([^)]*\) *\{(.*?)\}$", bare, flags=re.DOTALL | re.MULTILINE):
            is_taken = len(re.findall(rf"(?<!may_)\b{name}\(", bare)) > 1
            if name in fences and f"may_{name}(" in body and is_taken:
                found[name] = _in_sql(fences[name])
    return found


def _in_sql(fence: str) -> set[str]:
    clauses: set[str] = set()
    for each in fence.split(" && "):
        said = [re.sub(f"^{model}$", sql, each) for model, sql in CLAUSES.items() if re.fullmatch(model, each)]
        clauses.update(said[0].split("; ") if said else [f"?{each}"])
    return clauses
