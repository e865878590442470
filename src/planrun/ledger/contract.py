"""The port of the ledger: every change is a compare-and-swap on (job, attempt, token).

Each change carries its result, events and outbox rows in the same transaction. Everything that a
caller may have to repeat is idempotent, so an unanswered call is simply made again.

Source of the rules: docs/concepts/leases-and-fencing.md. The transitions are those of `core.life`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from planrun.core.coverage import OpenJobs
from planrun.core.drains import Drain, DrainRequest
from planrun.core.history import What
from planrun.core.keeping import Archived, Garbage, Keep, Owed, Record, Stale
from planrun.core.listing import ListQuery
from planrun.core.messages import (
    AttemptRow,
    CancelReply,
    CancelRequest,
    CheckpointRequest,
    Due,
    EventRow,
    Granted,
    GrantRequest,
    JobRow,
    Lease,
    Message,
    Output,
    Refused,
    ReleaseRequest,
    RenewRequest,
    Result,
    Settled,
    SettleRequest,
    Standing,
    SubmitReply,
    SubmitRequest,
    WorkerRow,
)
from planrun.core.offers import Offer, OfferQuery
from planrun.core.pauses import Pause, PauseRequest
from planrun.core.why import Outlook


class Ledger(Protocol):
    """What clients, workers and the duties of the orchestrator may ask.

    Raises (every method):
        LedgerUnavailable: No definite answer; calling again with equal arguments is safe.
        LedgerBusy: As above, and certainly not done: another process holds the write lock.
    """

    # --- clients ---

    async def submit(self, requests: Sequence[SubmitRequest]) -> list[SubmitReply]:
        """Take in jobs, all or none.

        Raises:
            Conflict: A request id or key is taken by other content, or it retries a job that has an open retry. Nothing
                of the call was written.
            ResultGone: A repeated request names subscribers, but the answer is no longer kept. Likewise.
        """
        ...

    async def cancel(self, request: CancelRequest) -> CancelReply:
        """End a job for every caller, at once. A job's id means that job, whatever requests are called.

        Raises:
            UnknownJob: No such job in that namespace, or one that is in the archive.
        """
        ...

    async def job(self, namespace: str | None, job_id: str) -> JobRow | None:
        """One job by its id or by a request id that led to it; None if there is none. `namespace` None: any."""
        ...

    async def result(self, job_id: str) -> Result | None:
        """The one answer of an ended job; None while it is open or once its result is no longer kept."""
        ...

    async def archived(self, namespace: str | None, job_id: str) -> Archived | None:
        """How a job ended whose record is in the archive; asked like `job`. None: not, or not known any more."""
        ...

    async def jobs(self, query: ListQuery) -> tuple[list[JobRow], int | None]:
        """A page of jobs, newest first, and the cursor of the next page."""
        ...

    async def attempts(self, job_id: str) -> list[AttemptRow]: ...

    async def events(self, job_id: str) -> list[EventRow]: ...

    async def outlook(self, job_id: str) -> Outlook | None:
        """All that decides when a job runs, as one look; None: no such job."""
        ...

    async def open_jobs(self) -> list[OpenJobs]:
        """How many jobs of each kind and version have not ended."""
        ...

    async def pauses(self, limit: int | None) -> list[Pause]:
        """The newest pauses, past ones too; None: all that are in force."""
        ...

    async def pause(self, request: PauseRequest) -> bool:
        """Offer and grant no more jobs of a set; False: exactly this set was paused before, and stays as it was."""
        ...

    async def resume(self, request: PauseRequest) -> bool:
        """End the pause of exactly this set; False: there is none."""
        ...

    async def rates(self) -> dict[str, float]:
        """How many jobs per second may be offered, by kind; the others as fast as they can be taken."""
        ...

    async def set_rate(self, kind: str, per_s: float | None) -> None:
        """From now on; None: without a limit.

        Raises:
            Invalid: Nothing offers jobs here: workers read them from this ledger.
        """
        ...

    async def workers(self, since_ms: int = 0) -> list[WorkerRow]:
        """Those that were seen since then (wall clock), the one last seen first."""
        ...

    async def running(self) -> dict[str, int]:
        """How many leases each worker holds, by incarnation."""
        ...

    async def drain(self, request: DrainRequest) -> list[str]:
        """Grant nothing more to these workers; what they run goes on. Returns those that were ready."""
        ...

    async def undrain(self, request: DrainRequest) -> list[str]:
        """Grant again. Returns those that were drained and had not begun to go by themselves."""
        ...

    async def drains(self, limit: int) -> list[Drain]:
        """The newest drains, past ones too."""
        ...

    async def job_ids(self, namespace: str | None, prefix: str, limit: int) -> list[str]:
        """Ids of jobs that begin like this, at most so many. `namespace` None: any."""
        ...

    async def ended(self, since_ms: int) -> dict[str, int]:
        """Jobs per state that ended since then (wall clock); states without any are left out."""
        ...

    async def counts(self, namespace: str | None) -> dict[str, int]:
        """Jobs per state."""
        ...

    async def violations(self) -> list[str]:
        """Broken invariants, in words. Empty in a healthy ledger."""
        ...

    async def owed(self) -> Owed | None:
        """Answers that are sent again and again in vain, and the oldest of them; None: there is none."""
        ...

    # --- workers ---

    async def register(self, worker: WorkerRow, *, may_shorten: bool = True) -> None:
        """Write down a worker, or its new state.

        Args:
            may_shorten: Results of its kinds are kept as long as it declares, also where that is less than before.
        """
        ...

    async def worker(self, incarnation: str) -> WorkerRow | None:
        """One worker as the ledger knows it."""
        ...

    async def offers(self, query: OfferQuery) -> list[Offer]:
        """Jobs that wait and that such a worker could run, most urgent first; the oldest, where it was asked for."""
        ...

    async def grant(self, request: GrantRequest) -> Granted | Refused:
        """Lease one attempt to one worker: queued → running at exactly that attempt."""
        ...

    async def grant_first(self, requests: Sequence[GrantRequest]) -> Granted | Refused:
        """Grant the first of several jobs that can be granted; the same call again gets the same one.

        Raises:
            Invalid: No job is named.
        """
        ...

    async def renew(self, request: RenewRequest) -> list[Standing]:
        """Extend all leases of one worker, and say for each whether it is still held. Same order as the beats."""
        ...

    async def standing(self, lease: Lease, intent: Sequence[Output]) -> Standing:
        """The fence check before an upload; records what is about to be uploaded, and extends a lease that is held."""
        ...

    async def held(self, incarnation: str) -> list[Lease]:
        """The leases that the ledger gives this worker right now. A cheap read: a missing one is lost or canceled."""
        ...

    async def checkpoint(self, request: CheckpointRequest) -> Standing: ...

    async def settle(self, request: SettleRequest) -> Settled:
        """Write how an attempt ended, before anything is said."""
        ...

    async def release(self, request: ReleaseRequest) -> Settled:
        """Hand a job back unharmed. Its process tree is dead before this is called."""
        ...

    async def stopped(self, lease: Lease, who: str) -> None:
        """The process tree of an attempt that no longer runs is dead."""
        ...

    async def bury_own(self, incarnation: str, *, secret: str, who: str) -> int | None:
        """As `bury`, where the lock is on another machine: asked by whoever got it, and has read the secret beside it.

        Returns:
            How many leases ended. None: that is not the secret of this worker.
        """
        ...

    async def live_tokens(self, tokens: Sequence[int]) -> set[int]:
        """Those of the tokens whose attempt is running or not known to be stopped: their scratch must stay."""
        ...

    # --- duties (any process that has the ledger open may do them) ---

    async def due(self) -> Due:
        """A cheap look at what a sweep would find, and when to look again."""
        ...

    async def adopt_epoch(self) -> int:
        """The machine was rebooted: end the leases of the other boot, re-base waits. Returns how many leases ended."""
        ...

    async def expire(self, *, stamp_ms: int, incarnation: str | None = None) -> int:
        """End leases that ran out at or before `stamp_ms`, of one worker or of all.

        The caller read the stamp *before* it asked. None ends while, or just after, the ledger could not be
        written: whoever could not renew because of that gets a moment to do it. Returns how many leases ended.
        """
        ...

    async def bury(self, incarnation: str, *, who: str) -> int:
        """That worker and its job trees are proven dead: end its leases, and count it as lost from now on.

        Returns:
            How many leases ended.
        """
        ...

    async def promote(self) -> int:
        """Let delayed jobs that have come due join the line, by their age."""
        ...

    async def end_overdue(self) -> int:
        """Fail jobs whose own deadline has passed."""
        ...

    async def end_unsupported(self, *, waited_ms: int, waited_ms_max: int | None = None) -> int:
        """Fail jobs that have waited so long, and no longer than that, and that no worker of the known fleet could run.

        Returns:
            How many; called again, more may follow.
        """
        ...

    async def take_messages(self, *, limit: int, retry_ms: int) -> list[Message]:
        """Messages that are owed now; each is due again in `retry_ms` or later unless it gets confirmed."""
        ...

    async def confirm(self, msg_id: str, *, what: What | None = None, detail: str = "") -> None:
        """A message has arrived; `what` and `detail` go into the job's history, once."""
        ...

    async def park(self, msg_id: str, *, detail: str) -> bool:
        """Nobody is there to take a message: send it no more, if its result has been kept as long as its kind says.

        Args:
            detail: For the job's history.

        Returns:
            False: not yet, or while the wall clock is doubted: it stays owed.
        """
        ...

    async def holder_of(self, namespace: str, name: str) -> str | None:
        """The job whose file belongs at a public name: of those that finished, the one that asked for it last."""
        ...

    async def garbage(self, *, grace_ms: int, limit: int, visited: Collection[int] = ()) -> list[Garbage]:
        """Attempts that lost, whose objects may be deleted.

        Args:
            visited: Tokens of attempts that are left out as long as they are not final.
        """
        ...

    async def collected(self, lease: Lease) -> None: ...

    async def doubt(self) -> int:
        """Look at the clocks: how much longer, in milliseconds, ages on the wall clock are not to be acted upon."""
        ...

    async def keep(self, keep: Keep) -> None:
        """How long things are kept from now on, whoever looks after this ledger. The last one to say so is right."""
        ...

    async def stale(self, *, limit: int) -> Stale:
        """What has been kept long enough, at most `limit` of each. Nothing of which a message is still owed."""
        ...

    async def records(self, job_ids: Sequence[str]) -> list[Record]:
        """All that is known of these ended jobs, as lines of the archive."""
        ...

    async def drop(self, stale: Stale, *, archived: Mapping[str, int]) -> Stale:
        """Drop what is still stale, and return it. First a result goes from the ledger; its files are garbage then.

        Args:
            archived: The jobs whose record is durable, each with `Record.seen`: only these go, unless more happened.
        """
        ...

    async def backup(self, path: str) -> None:
        """Copy the ledger, consistent, while everything goes on; the copy is looked through before it counts.

        Raises:
            Invalid: There is a file already, or none can be made there. Nothing was written.
        """
        ...

    async def changed(self, *, timeout_s: float, about: str | None = None) -> None:
        """Return when anybody may have changed the ledger since the last call, or at the timeout.

        Args:
            about: A job, or a worker's incarnation: only what was written into its history; None: any change.
        """
        ...

    async def close(self) -> None: ...
