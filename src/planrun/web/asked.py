"""What comes in: query, headers and body of each call.

A field that does not exist is refused: a typo must not be taken for a default.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated, Any, dataclass_transform

import msgspec
from msgspec import Meta

from planrun.core.errors import Invalid
from planrun.core.inputs import FETCHED
from planrun.core.life import State

WAIT_S_MAX = 600
PAGE_MAX = 1000
BULK_MAX = 100  # taken in whole or not at all
CURSOR_MAX = 2**63 - 1

Line = Annotated[str, Meta(max_length=2000)]
Cursor = Annotated[int, Meta(ge=0, le=CURSOR_MAX)]
Limit = Annotated[int, Meta(ge=1, le=PAGE_MAX)]


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all that comes in."""


# --- queries and headers ----------------------------------------------------------------------


class NoQuery(Asked):
    """Nothing to choose."""


class JobQuery(Asked):
    """Attributes:
    namespace: Where to look for the job; without it, everywhere.
    """

    namespace: str | None = None


class WaitQuery(JobQuery):
    """Attributes:
    timeout_s: Answer after so many seconds at the latest; the job goes on.
    """

    timeout_s: Annotated[float, Meta(ge=0, le=WAIT_S_MAX)] = 30


class EventsQuery(JobQuery):
    """Attributes:
    after: The cursor that the page before ended with.
    limit: How many.
    """

    after: Cursor | None = None
    limit: Limit = 100


class LogsQuery(JobQuery):
    """Attributes:
    attempt: Which attempt; without it the newest one that printed something.
    """

    attempt: Cursor | None = None


class LogQuery(LogsQuery):
    """Attributes:
    after: How many bytes of it are known already.
    """

    after: Cursor = 0


class ListingQuery(Asked):
    """Attributes:
    namespace, kind, version, key: Only of these.
    state: Only `queued`, `running`, `finished`, `failed` or `canceled`.
    since_s: Only created in the last so many seconds.
    limit: How many.
    before: The cursor that the page before ended with.
    """

    namespace: str | None = None
    kind: str | None = None
    version: str | None = None
    state: State | None = None
    key: str | None = None
    since_s: Annotated[float, Meta(ge=0)] | None = None
    limit: Limit = 50
    before: Cursor | None = None


class CountsQuery(Asked):
    """Attributes:
    namespace: Only of this one.
    """

    namespace: str | None = None


class PausesQuery(Asked):
    """Attributes:
    limit: So many, past ones too; without it those in force.
    """

    limit: Limit | None = None


class DrainsQuery(Asked):
    """Attributes:
    limit: So many, past ones too.
    """

    limit: Limit = 50


class SubmitHeaders(Asked):
    """Attributes:
    idempotency_key: The same as `request_id` in the body.
    """

    idempotency_key: str | None = msgspec.field(default=None, name="Idempotency-Key")


class StreamHeaders(Asked):
    """Attributes:
    last_event_id: The id of the last event that was read: the history goes on behind it.
    """

    last_event_id: str | None = msgspec.field(default=None, name="Last-Event-ID")


# --- bodies in --------------------------------------------------------------------------------


class SubmitBody(Asked):
    """One job to submit.

    Attributes:
        kind: What to run.
        version: Exact version of the kind.
        inputs: Input name → absolute path, or `file:` URI, of a file on the server's box; or `https:` address that the
            worker fetches.
        params: JSON values for the job.
        key: The operation asked for: equal ones join the running job or get the stored answer. `content`: made from
            kind, version, params and inputs. Without it nothing is joined.
        request_id: Identity of this call: repeating it never makes a second job.
        namespace: Whose job it is.
        needs: Capabilities beside those of the kind.
        priority: Higher runs earlier.
        delay_s: Not before so many seconds from now.
        max_attempts: How often the job may fail by its own fault.
        deadline_s: The job fails if it has not ended so many seconds from now.
        subscribers: Who gets the answer: `webhook:https://…`.
        publish: Public names that a copy of the result shall have: `campaign-42/master.mp4`, or with `=OUTPUT` behind.
        who: Who asks, for the history.
    """

    kind: str
    version: str = "v1"
    inputs: dict[str, str] = {}
    params: dict[str, Any] = {}
    key: str | None = None
    request_id: str | None = None
    namespace: str = "default"
    needs: tuple[str, ...] = ()
    priority: int = 0
    delay_s: float = 0
    max_attempts: int = 4
    deadline_s: float | None = None
    subscribers: tuple[str, ...] = ()
    publish: tuple[str, ...] = ()
    who: Line = ""


class BulkBody(Asked):
    """Jobs that are taken in together, or none of them."""

    jobs: Annotated[tuple[SubmitBody, ...], Meta(min_length=1, max_length=BULK_MAX)]


class OperatorBody(Asked):
    """Attributes:
    who, why: For the history.
    """

    who: Line = ""
    why: Line = ""


class PauseBody(OperatorBody):
    """Attributes:
    kind, namespace: Which jobs; empty: any.
    """

    kind: str = ""
    namespace: str = ""


class UndrainBody(OperatorBody):
    """Attributes:
    worker: Name of the worker; empty: all that live.
    """

    worker: str = ""


class DrainBody(UndrainBody):
    """Attributes:
    force: Although open jobs are then left without a worker.
    """

    force: bool = False


def check_reach(body: SubmitBody) -> None:
    """Refuse what has a meaning only on the caller's own box, or would give it this one.

    Raises:
        Invalid: Says what to write instead.
    """
    for name, uri in body.inputs.items():
        if uri.partition(":")[0] not in ("file", *FETCHED) and not PurePosixPath(uri).is_absolute():
            raise Invalid(f"input {name}: {uri!r:.200}: over HTTP name an https: address or an absolute path")
    for route in body.subscribers:
        if not route.startswith(("webhook:", "rabbitmq:")):
            raise Invalid(
                f"subscriber {route!r:.200}: over HTTP webhook:https://… and rabbitmq:QUEUE are taken, never a program"
            )
