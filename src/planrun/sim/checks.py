"""The oracle: what must hold after every step, and at the end. It reads raw rows.

S1 … S14 and L1 … L6 are those of docs/internals/simulator.md. S13 is about real processes, and tested elsewhere. S10
holds only where clocks run: where one stood still it is counted, and nothing that anybody sees hangs on it. Which jobs
a commit has changed the ledger says itself; at the end all of them are read once more.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from planrun.client.answer import Answer
from planrun.core.errors import PlanrunError
from planrun.core.messages import CancelReply
from planrun.sim.findings import Counts, JobRow, Violation
from planrun.sim.overhearing import heard
from planrun.sim.rows import ATTEMPTS, EVENTS, JOB, RESULT, TOKENS, Rows
from planrun.sim.settings import Mode, Order

if TYPE_CHECKING:
    from planrun.sim.world import World

ENDED = ("finished", "failed", "canceled")
FAILURES = ("permanent", "transient", "fatal", "stalled", "overtime")
_TOKEN = (1 << 40) - 1


@dataclass
class Checks:
    """Attributes:
    violations: What was found; the first one ends the history.
    visible: Digest of each object that a result names, by key.
    bodies: What each message said when it came first, by its id.
    """

    world: World
    violations: list[Violation] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    visible: dict[str, str] = field(default_factory=dict)
    _jobs: dict[str, JobRow] = field(default_factory=dict)
    _tokens: dict[int, tuple[str, int]] = field(default_factory=dict)
    _outcomes: dict[tuple[str, int], str | None] = field(default_factory=dict)
    _results: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    bodies: dict[str, str] = field(default_factory=dict)
    _accepted: dict[str, str] = field(default_factory=dict)
    _answers: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    _refused: set[str] = field(default_factory=set)
    _canceled: dict[str, bool] = field(default_factory=dict)
    _forgotten: dict[str, tuple[Any, ...] | None] = field(default_factory=dict)  # by a restore; with what was settled
    _adopted: set[str] = field(default_factory=set)
    _lost: set[tuple[str, int, str, int]] = field(default_factory=set)
    _event: int = 0

    def __post_init__(self) -> None:
        self._rows = Rows(lambda: self.world.disk.path)

    # --- after each step ---

    @heard
    def committed(self, about: Iterable[str] | None) -> None:
        """A transaction was committed. `about`: the jobs and others that it changed; None: all may be."""
        self.counts.commits += 1
        names = set(self._jobs if about is None else (name for name in about if "-" in name))
        for event_id, job_id, what, attempt, who, detail in self._rows(EVENTS, self._event):
            self._event = event_id
            names.add(job_id)
            self.counts.refused += what == "refused"
            if what == "adopted":
                self._adopted.add(job_id)
            if what == "granted":
                self.world.granted(job_id)
            by = self.world.incarnations[who].name if who in self.world.incarnations else who
            text = f"{what}{f' ({detail})' if detail else ''}{f' by {by}' if by else ''}"
            self.world.say("ledger", text, job=job_id, attempt=attempt)
        for job_id in sorted(names):
            self._look(job_id)
        for each in sorted(self._lost):
            self._believed(*each)

    @heard
    def restored(self) -> None:
        """The ledger is an older one now. What anybody was told stays said, and tokens that were granted stay used.

        What was accepted since, and has not been answered, is forgotten: so it is promised, and whoever waits for it
        hands it in again.
        """
        known = self._ids() | self._jobs.keys()  # of the file as it was, which is still open
        self.close()
        said = {json.loads(body)["result"]["job_id"] for body in self.bodies.values()} | set(self._answers)
        self._forgotten |= {job_id: self._results.get(job_id) for job_id in known}
        self._results = {job_id: row for job_id, row in self._results.items() if job_id in said}
        self.visible = {each["key"]: each["sha256"] for row in self._results.values() for each in json.loads(row[3])}
        here = said | self._ids()
        self._accepted = {name: job_id for name, job_id in self._accepted.items() if job_id in here}
        self._canceled = {job_id: was for job_id, was in self._canceled.items() if job_id in said}
        self._jobs.clear()
        self._outcomes.clear()
        self._lost.clear()
        [(last,)] = self._rows("SELECT coalesce(max(id), 0) FROM event")
        self._event = last
        for job_id in sorted(self._ids()):
            self._look(job_id)

    @heard
    def stored(self, key: str) -> None:
        """An object was written or removed."""
        expected = self.visible.get(key)
        if expected is not None and not (key not in self.world.store.objects and self._is_kept_no_more(key)):
            self._same(key, expected, "S9")

    @heard
    def announced(self, msg_id: str, body: str) -> None:
        """A message has reached its receiver."""
        self.counts.messages += 1
        before = self.bodies.setdefault(msg_id, body)
        if before is not body and before != body:
            self._say("S2", f"message {msg_id} said two things: {before:.200} and {body:.200}")
        said = json.loads(body)["result"]
        job_id = said["job_id"]
        rows = self._rows(RESULT, job_id) or [row for row in [self._forgotten.get(job_id)] if row is not None]
        if not rows:
            self._say("S6", f"job {job_id} was announced before it was settled")
            return
        attempt, token, status, outputs, _, _ = rows[0]
        stands = (attempt, token, status, [each["key"] for each in json.loads(outputs)])
        told = (said["attempt"], said.get("token"), said["state"], [each["key"] for each in said.get("outputs", ())])
        if stands != told:
            self._say("S6", f"job {job_id} was announced as {told}, and settled as {stands}")
        if said["state"] == "finished":
            if job_id in self._jobs and self._jobs[job_id].state == "canceled":
                self._say("S12", f"job {job_id} was canceled, and announced as finished")
            for each in said.get("outputs", ()):
                self._same(each["key"], each["sha256"], "S5")

    def _is_kept_no_more(self, key: str) -> bool:
        """Has the result of which this is an output been kept long enough?"""
        job_id = key.partition("/jobs/")[2].partition("/")[0]
        return bool(self._rows("SELECT 1 FROM job WHERE job_id = ? AND result_gone_at_ms IS NOT NULL", job_id))

    # --- what the application was told ---

    @heard
    def accepted(self, order: Order, job_id: str) -> None:
        """A submit was answered."""
        rows = self._rows(JOB, job_id)
        if not rows and job_id in self._forgotten:
            return
        before = self._accepted.setdefault(order.name, job_id)
        if before != job_id:
            self._say("S14", f"call {order.name} is job {before}, and job {job_id}")
        if rows:
            self._job(job_id, JobRow(*rows[0]))
        else:
            self._say("S14", f"job {job_id} was accepted, and is not in the ledger")

    @heard
    def refused(self, order: Order) -> None:
        """A submit was refused: its key is another's."""
        self._refused.add(order.name)
        if not order.may_be_refused:
            self._say("S14", f"call {order.name} was refused, and nobody else has its key")

    @heard
    def denied(self, order: Order, job_id: str, error: PlanrunError) -> None:
        """Somebody who asks for a job that was accepted is told that there is none."""
        if job_id not in self._forgotten:
            self._say("S14", f"who asks for call {order.name} is told: {error}")

    @heard
    def canceled(self, job_id: str, reply: CancelReply) -> None:
        """A cancel was answered."""
        if job_id in self._forgotten and not self._rows(RESULT, job_id):
            return
        self._canceled[job_id] = reply.canceled or self._canceled.get(job_id, False)

    @heard
    def answered(self, order: Order, answer: Answer) -> None:
        """Somebody who waited got the answer."""
        outputs = tuple(sorted((name, file.key, file.sha256) for name, file in answer.outputs.items()))
        told = (answer.state, answer.reason, outputs)
        self._as_settled(answer)
        before = self._answers.setdefault(answer.job_id, told)
        if before != told:
            self._say("S2", f"job {answer.job_id} was answered as {before}, and as {told}")
        self.world.answers[order.name] = answer
        self._accepted.setdefault(order.name, answer.job_id)
        for _, key, digest in outputs:
            self._same(key, digest, "S5")

    # --- inside ---

    def _as_settled(self, answer: Answer) -> None:
        """Who waits is told what stands in the ledger."""
        rows = self._rows(RESULT, answer.job_id)
        settled = rows[0] if rows else self._forgotten.get(answer.job_id)
        if settled is None:
            self._say("S2", f"job {answer.job_id} was answered before it was settled")
            return
        _, _, status, outputs, _, _ = settled
        stands = (status, {each["key"] for each in json.loads(outputs)})
        told = (answer.state, {file.key for file in answer.outputs.values()})
        if stands != told:
            self._say("S2", f"job {answer.job_id} was answered as {told}, and settled as {stands}")

    def _look(self, job_id: str) -> None:
        row = self._rows(JOB, job_id)
        if row:
            self._job(job_id, JobRow(*row[0]))
        elif job_id in self._jobs:
            self._say("S14", f"job {job_id} is gone")

    def _job(self, job_id: str, now: JobRow) -> None:
        before = self._jobs.get(job_id)
        self._jobs[job_id] = now
        if before is None:
            self.counts.jobs += 1
        else:
            is_final = before.state in ENDED and not before.closing
            if is_final and (before.state, before.attempt) != (now.state, now.attempt):
                self._say("S1", f"job {job_id} had {before.state}, and is {now.state}")
            if now.attempt < before.attempt:
                self._say("S4", f"the attempt of job {job_id} went from {before.attempt} to {now.attempt}")
        if now.failures > now.max_attempts or now.losses > now.max_losses or now.handbacks > now.max_handbacks + 1:
            self._say("S11", f"job {job_id} is beyond its budgets: {now}")
        self._attempts(job_id)
        if before is not None and before.state == now.state == "running" and now.token != before.token:
            self._ended_between(job_id, before, now)
        if now.state in ENDED:
            self._result(job_id, before, now)

    def _ended_between(self, job_id: str, before: JobRow, now: JobRow) -> None:
        """One commit may hold an end and another start."""
        if self._outcomes.get((job_id, before.attempt)) is None:
            self._say("S4", f"job {job_id} went from token {before.token} to {now.token} without an end in between")

    def _attempts(self, job_id: str) -> None:
        last = 0
        for attempt, token, incarnation, outcome in self._rows(ATTEMPTS, job_id):
            if token <= last:
                self._say("S4", f"job {job_id}: token {token} of attempt {attempt} is not above {last}")
            last = token
            known = self._tokens.setdefault(token, (job_id, attempt))
            if known != (job_id, attempt):
                self._say("S4", f"token {token} is of job {job_id} attempt {attempt}, and of {known}")
            if (job_id, attempt) not in self._outcomes:
                self.counts.grants += 1
                self._outcomes[job_id, attempt] = None
            if outcome is not None and self._outcomes[job_id, attempt] is None:
                self._outcomes[job_id, attempt] = outcome
                self.counts.failures += outcome in FAILURES
                self.counts.handbacks += outcome == "released"
                if outcome == "lost":
                    self.counts.losses += 1
                    self._lost.add((job_id, attempt, incarnation, token))

    def _believed(self, job_id: str, attempt: int, incarnation: str, token: int) -> None:
        """S10 supposes clocks that run. Where one stood still, it is counted, and nothing hangs on it."""
        world = self.world
        lost = job_id, attempt, incarnation, token
        if not world.trusts_itself(incarnation, token):
            if not world.holds(incarnation, token):
                self._lost.discard(lost)
            return
        self._lost.discard(lost)  # said once
        self.counts.beliefs += 1
        if not world.clocks_stood:
            holder = world.incarnations[incarnation].name
            self._say("S10", f"job {job_id} attempt {attempt} was taken from {holder}, which still trusts itself")

    def _result(self, job_id: str, before: JobRow | None, now: JobRow) -> None:
        rows = self._rows(RESULT, job_id)
        if not rows:
            if now.state == "finished":
                self._say("S1", f"job {job_id} has finished without a result")
            return
        row = rows[0]
        known = self._results.get(job_id)
        if known is not None:
            if known != row and not now.closing:
                self._say("S1", f"the result of job {job_id} was {known}, and is {row}")
            return
        self._results[job_id] = row
        attempt, token, status, outputs, _, _ = row
        is_known = self._forgotten.get(job_id) == row  # it was settled before the restore
        if status == "finished" and not is_known and (not before or (before.state, before.token) != ("running", token)):
            self._say("S7", f"job {job_id} was settled by token {token & _TOKEN}, which did not hold it: {before}")
        for each in json.loads(outputs):
            if f"/{attempt}-{token:x}/" not in each["key"]:
                self._say("S8", f"job {job_id} was won by token {token & _TOKEN}, and names {each['key']}")
            self.visible[each["key"]] = each["sha256"]
            self._same(each["key"], each["sha256"], "S5")

    def _same(self, key: str, digest: str, rule: str) -> None:
        data = self.world.store.objects.get(key)
        if data is None:
            self._say(rule, f"{key} is not in the store")
        elif hashlib.sha256(data).hexdigest() != digest:
            self._say(rule, f"{key} holds other bytes than the result says")

    def _say(self, rule: str, what: str) -> None:
        self.violations.append(Violation(rule, what, self.world.loop.now_s))
        self.world.say("oracle", f"VIOLATION {rule}: {what}")

    def _ids(self) -> set[str]:
        return {job_id for (job_id,) in self._rows("SELECT job_id FROM job")}

    def close(self) -> None:
        """The ledger's file is another one from now on."""
        self._rows.close()

    # --- at the end ---

    def is_at_rest(self) -> bool:
        """Has all ended that was asked for, and was it said?"""
        world = self.world
        orders = world.settings.orders
        if any(order.name not in self._accepted and order.name not in self._refused for order in orders):
            return False
        if any(job.state not in ENDED or job.closing for job in self._jobs.values()):
            return False
        if any(order.waits and order.name not in world.answers for order in orders if order.name in self._accepted):
            return False
        if world.settings.mode is Mode.FLEET and (world.broker.answers or world.hub.host() is None):
            return False  # confirmed by the broker, and on their way to their receivers; or not yet taken over
        return not self._rows("SELECT 1 FROM outbox WHERE confirmed = 0 LIMIT 1")

    def at_end(self) -> None:
        """What must hold once everybody had time enough."""
        world = self.world
        kept = () if world.settings.are_archived else self._jobs.keys()
        for job_id in sorted(self._ids().union(kept)):  # also what changed without a word
            self._look(job_id)
        for job_id, job in self._jobs.items():
            if job.state not in ENDED:
                self._say("L1", f"job {job_id} is {job.state}")
        for order in world.settings.orders:
            if order.name in self._refused:
                continue
            if order.name not in self._accepted:
                self._say("L1", f"call {order.name} was never answered")
            elif self._accepted[order.name] not in self._jobs:
                self._say("L1", f"job {self._accepted[order.name]} of call {order.name} is gone")
            elif order.waits and order.name not in world.answers:
                self._say("L1", f"who waits for call {order.name}, job {self._accepted[order.name]}, has heard nothing")
        for job_id, was_canceled in self._canceled.items():
            state = self._jobs[job_id].state if job_id in self._jobs else "gone"
            if was_canceled and state != "canceled":
                self._say("S12", f"job {job_id} was canceled, and is {state}")
        self._messages_at_end()
        self._budgets_at_end()
        for job_id, token in self._rows("SELECT job_id, token FROM job WHERE state = 'running'"):
            self._say("L3", f"job {job_id} is still held, by token {token & _TOKEN}")

    def stopped_at_end(self, running: list[str]) -> None:
        """No job code runs for a job that ended long ago: by a cancel, a deadline, or elsewhere."""
        for job_id in running:
            state = self._jobs[job_id].state if job_id in self._jobs else "gone"
            self._say("L5", f"a process still runs for job {job_id}, which is {state}")

    def files_at_end(self) -> None:
        """What lies in the store once all has been collected: nothing but what a result names, and its log."""
        logs = {f"{job_id}/{row[0]}-{row[1]:x}/log" for job_id, row in self._results.items() if row[1]}
        store = self.world.store
        granted = {f"{job_id}/{attempt}-{token:x}" for job_id, attempt, token in self._rows(TOKENS)}
        for key in sorted({*store.objects, *store.unfinished} - self.visible.keys()):
            first, _, rest = key.partition("/")
            kind, _, name = rest.partition("/")
            if self._forgotten and kind == "jobs" and "/".join(name.split("/")[:2]) not in granted:
                continue  # of an attempt that only the history before the restore knew
            is_named = first == "ledger" or name in logs or (kind == "results" and name[:-5] in self._results)
            if not is_named:
                self._say("L4", f"{key} lies there, and no result names it")

    def _messages_at_end(self) -> None:
        acts = self.world.receiver.acts
        owed = {f"result:{job}:{route}" for job, route in self._rows("SELECT job_id, route FROM subscriber")}
        for msg_id, confirmed in self._rows("SELECT msg_id, confirmed FROM outbox"):
            if not confirmed:
                self._say("L2", f"{msg_id} is still owed")
            if confirmed and acts.get(msg_id, 0) != 1:
                self._say("S3", f"{msg_id} is confirmed, and was acted upon {acts.get(msg_id, 0)} times")
        said = {msg_id for (msg_id,) in self._rows("SELECT msg_id FROM outbox")}
        for msg_id in sorted(owed ^ said):
            self._say("L2", f"{msg_id} is {'owed, and was not said' if msg_id in owed else 'said, and not owed'}")
        for msg_id in acts:
            if msg_id not in said and not self._forgotten:  # a restore forgets who has joined an ended job since
                self._say("S2", f"{msg_id} was announced, and nobody owes it")

    def _budgets_at_end(self) -> None:
        for job_id, job in self._jobs.items():
            outcomes = [outcome for (of, _), outcome in self._outcomes.items() if of == job_id]
            spent = (sum(each in FAILURES for each in outcomes), outcomes.count("lost"))
            if spent != (job.failures, job.losses) and job_id not in self._adopted:
                self._say("S11", f"job {job_id} had {spent} failures and losses, and counts {job}")
