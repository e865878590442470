"""Every exception planrun raises.

* PlanrunError
  - Invalid             what the caller passed cannot be right; nothing was done
  - Conflict            a job has that request id or key for other content, or is that retry; it is untouched
  - UnknownJob          no such job or request in this ledger
  - ResultGone          the job ended, but its result is no longer kept
  - WaitTimeout         the job goes on; only the waiting ended
  - LedgerUnavailable   no answer: what was asked may or may not have happened; asking again is safe
    . LedgerBusy        another process holds the ledger's write lock; names it; nothing was done
  - LedgerUnusable      this file must not be opened (newer schema, unsafe SQLite, network filesystem), or no more
  - TransportUnavailable  the broker has not confirmed: it may have arrived or not; sending again is safe
    . Unroutable        it has nobody to give it to: no such queue; nothing arrived
  - StorageError        the store could not do it; nothing became visible
  - LostLease           someone else owns the job now: stop, upload nothing, say nothing
  - JobError            raised by job code; the subclass decides what happens next
    . Permanent         same input, same failure: the job fails once
    . Transient         a bad moment: back in line
    . Fatal             this worker is broken: it stops and restarts clean
"""

from __future__ import annotations

from typing import ClassVar


class PlanrunError(Exception):
    """Base of all errors of planrun. Its text says what is wrong and what to do.

    Attributes:
        slug: Its name where it travels. Never changes; empty: it does not travel.
    """

    slug: ClassVar[str] = ""


class Invalid(PlanrunError, ValueError):
    """What the caller passed cannot be right. Nothing was done: mend the call; asking again is useless."""

    slug = "invalid"


class Conflict(PlanrunError):
    """Another job is in the way, and untouched: it has that request id or key for other content, or is a retry already.

    Attributes:
        job_id: That job.
    """

    slug = "conflict"

    def __init__(self, message: str, *, job_id: str) -> None:
        super().__init__(message)
        self.job_id = job_id


class UnknownJob(PlanrunError, LookupError):
    """No such job, and no such request, in this ledger and namespace: look at the address and at the id."""

    slug = "unknown-job"


class ResultGone(PlanrunError):
    """The job ended, but its result is no longer kept. Submit it again to have it made again."""

    slug = "result-gone"


class WaitTimeout(PlanrunError, TimeoutError):
    """The job has not ended yet. It goes on; only the waiting ended: wait again."""

    slug = "not-ended"


class LedgerUnavailable(PlanrunError):
    """No answer from the ledger: what was asked may or may not have happened. Asking again is safe."""

    slug = "ledger-unavailable"


class LedgerBusy(LedgerUnavailable):
    """Another process has held the ledger's write lock for too long. Nothing was done: free that process, ask again.

    Attributes:
        holder_pid: The process that holds it, 0 if not known.
    """

    slug = "ledger-busy"

    def __init__(self, message: str, *, holder_pid: int) -> None:
        super().__init__(message)
        self.holder_pid = holder_pid


class LedgerUnusable(PlanrunError):
    """This file must not be opened as a ledger here, or not used any more. The text says why and what to do."""

    slug = "ledger-unusable"


class TransportUnavailable(PlanrunError):
    """The broker has not confirmed: what was sent may have arrived or not. Sending it again is safe."""


class Unroutable(TransportUnavailable):
    """There is no such queue. Nothing arrived: declare the queue; sending it again helps only then."""


class StorageError(PlanrunError):
    """The store could not do it. Nothing became visible.

    Attributes:
        disk_full: There was no room. Trying again helps once somebody has made some.
        is_away: The store gave no answer, or none but "later". Trying again helps once it is back.
    """

    slug = "storage"

    def __init__(self, message: str, *, disk_full: bool = False, is_away: bool = False) -> None:
        super().__init__(message)
        self.disk_full = disk_full
        self.is_away = is_away


class LostLease(PlanrunError):
    """This attempt no longer owns the job. A worker meets it and stops; no caller ever does."""


class JobError(PlanrunError):
    """Base of the three verdicts. Job code raises a subclass, never this.

    Args:
        message: For the person who submitted the job.
        code: Stable, machine-readable slug such as "ffmpeg-bad-filter". Never reworded.
    """

    def __init__(self, message: str, *, code: str = "") -> None:
        if type(self) is JobError:
            raise TypeError("raise Permanent, Transient or Fatal")
        super().__init__(message)
        self.code = code


class Permanent(JobError):
    """The same input fails the same way every time. The job fails once and the sender is told why."""


class Transient(JobError):
    """The machine or the network had a bad moment. The job goes back in line."""


class Fatal(JobError):
    """The worker itself is broken, such as a graphics card that has locked up.

    The worker stops taking jobs and exits with 70, so that it restarts clean. A single bad input is
    Permanent, never Fatal.
    """
