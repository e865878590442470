"""For the application that receives answers: act once on each, however often it comes.

An answer comes at least once, always with the same id. So the id is written down in the application's own database,
*in the transaction of its own effect*: both are kept, or neither. Only after that commit is the answer acknowledged.

    answer = verify(request.headers, body, secret)      # a webhook; or read(message.body) from a queue
    with connection:                                    # one transaction of yours
        if Inbox(connection).once(answer.msg_id):       # first: whoever brings it a second time waits here
            connection.execute("UPDATE movie SET preview = ? WHERE …", …)
    …                                                   # answer 204, or acknowledge the message

Nothing here talks to planrun: it needs your connection, and no ledger, store or client.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Protocol

import msgspec
from standardwebhooks import Webhook

from planrun.core.errors import Invalid
from planrun.core.messages import Result, Struct

KEEP_S = 14 * 24 * 3600.0
TABLE = "CREATE TABLE IF NOT EXISTS planrun_inbox(msg_id TEXT PRIMARY KEY, seen_at_s BIGINT NOT NULL)"

_IDLE = 0  # libpq: no transaction is open
_LEGACY = -1  # sqlite3.LEGACY_TRANSACTION_CONTROL: `isolation_level` decides


class Received(Struct, kw_only=True):
    """An answer as it came.

    Attributes:
        msg_id: The same at every repetition, and of this subscriber alone.
        result: How the job ended.
        public_names: Where its files stand in the public folder.
    """

    msg_id: str
    result: Result
    public_names: tuple[str, ...] = ()


def read(body: bytes | str) -> Received:
    """Read a message of a queue that only planrun may write to, or the input of a `command:` route.

    Raises:
        Invalid: It is no answer of planrun's.
    """
    try:
        return msgspec.json.decode(body, type=Received)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"this is no answer of planrun's: {error}") from None


def verify(headers: Mapping[str, str], body: bytes | str, secret: str) -> Received:
    """Read a webhook, after its signature was checked. What fails here is answered with 400, and acted upon never.

    Args:
        headers: Of the request, in any case.
        body: As it came, byte for byte.
        secret: PLANRUN_WEBHOOK_SECRET of the sender; several with spaces between are tried in turn.

    Raises:
        Invalid: Not signed with that secret, or longer than five minutes ago; or no answer of planrun's.
    """
    failed: Exception = ValueError("no secret was given")
    for each in secret.split():
        try:
            Webhook(each).verify(body, dict(headers), json_parse=False)
        except Exception as error:  # what it raises for a header that is no signature is not said
            failed = error
        else:
            return read(body)
    raise Invalid(f"the webhook is not verified: {failed}") from None


class Inbox:
    """The ids of what was acted upon, in the application's own database: SQLite, PostgreSQL, or what speaks DB-API.

    Belongs to the connection that it was made with, and never commits.
    """

    def __init__(self, connection: Connection) -> None:
        """
        Args:
            connection: Of sqlite3, psycopg or another DB-API module.

        Raises:
            Invalid: That is no such connection.
        """
        self._connection = connection
        self._marks = _marks(connection)

    def create(self) -> None:
        """Make the table if there is none: the statement `TABLE`, which may as well stand in your migrations."""
        self._connection.cursor().execute(TABLE)

    def once(self, msg_id: str) -> bool:
        """Is it here for the first time? Then act upon it, in this very transaction; else only acknowledge it.

        While another transaction has the same id in hand this waits for that one's end, or fails as the database does
        when it has waited too long: roll back, and let the answer come again.

        Raises:
            Invalid: No transaction is open, and this connection commits each statement by itself.
        """
        _refuse_autocommit(self._connection)
        cursor = self._connection.cursor()
        cursor.execute(_insert(self._marks), (msg_id, int(time.time())))
        return bool(cursor.rowcount == 1)

    def prune(self, *, keep_s: float = KEEP_S) -> int:
        """Forget ids that came longer ago, and say how many. An answer that comes again after that is acted upon anew.

        Args:
            keep_s: Longer than a receiver may be away between its commit and its acknowledgment.
        """
        cursor = self._connection.cursor()
        cursor.execute(_delete(self._marks), (int(time.time() - keep_s),))
        return int(cursor.rowcount)


class AsyncInbox:
    """The same for a connection whose `execute` is awaited: of psycopg's AsyncConnection, of aiosqlite."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self._marks = _marks(connection)

    async def create(self) -> None:
        """As `Inbox.create`."""
        await self._connection.execute(TABLE)

    async def once(self, msg_id: str) -> bool:
        """As `Inbox.once`."""
        _refuse_autocommit(self._connection)
        cursor = await self._connection.execute(_insert(self._marks), (msg_id, int(time.time())))
        return bool(cursor.rowcount == 1)

    async def prune(self, *, keep_s: float = KEEP_S) -> int:
        """As `Inbox.prune`."""
        cursor = await self._connection.execute(_delete(self._marks), (int(time.time() - keep_s),))
        return int(cursor.rowcount)


class Cursor(Protocol):
    @property
    def rowcount(self) -> int: ...

    def execute(self, sql: Any, parameters: Sequence[Any] = ..., /) -> Any: ...


class Connection(Protocol):
    def cursor(self) -> Cursor: ...


class AsyncConnection(Protocol):
    def execute(self, sql: Any, parameters: Sequence[Any] = ..., /) -> Awaitable[Any]: ...


def _insert(marks: tuple[str, str]) -> str:
    first, second = marks
    return f"INSERT INTO planrun_inbox(msg_id, seen_at_s) VALUES ({first}, {second}) ON CONFLICT DO NOTHING"


def _delete(marks: tuple[str, str]) -> str:
    return f"DELETE FROM planrun_inbox WHERE seen_at_s < {marks[0]}"


def _marks(connection: object) -> tuple[str, str]:
    """How the connection's module writes the first and the second parameter."""
    module = sys.modules.get(type(connection).__module__.partition(".")[0])
    match getattr(module, "paramstyle", None):
        case "qmark":
            return "?", "?"
        case "format" | "pyformat":
            return "%s", "%s"
        case "numeric":
            return ":1", ":2"
        case style:
            raise Invalid(
                f"{type(connection).__module__}.{type(connection).__name__} is no connection that an inbox can use "
                f"(paramstyle {style}): give the connection of the driver itself, such as sqlite3's or psycopg's"
            )


def _refuse_autocommit(connection: Any) -> None:
    if _commits_by_itself(connection):
        raise Invalid(
            "no transaction is open: the id would be kept even if your effect is not; "
            "begin one (BEGIN, or connection.transaction()) and do both inside"
        )


def _commits_by_itself(connection: Any) -> bool:
    """Would the next statement be committed as soon as it ends?"""
    if hasattr(connection, "in_transaction"):  # sqlite3, aiosqlite
        control = getattr(connection, "autocommit", _LEGACY)
        alone = connection.isolation_level is None if control == _LEGACY else control is True
        return bool(alone and not connection.in_transaction)
    info = getattr(connection, "info", None)  # psycopg
    open_already = info is not None and getattr(info, "transaction_status", _IDLE) != _IDLE
    return bool(getattr(connection, "autocommit", False)) and not open_already
