"""One open transaction, as the verbs see it: statements by name, and one reading of the clocks."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from planrun.clock import Instant

Row = dict[str, Any]


class Tx(Protocol):
    """A transaction over a ledger's connection. A verb runs wholly inside one."""

    now: Instant
    about: set[str]  # the jobs, and the workers' incarnations, that somebody may wait for and that were changed

    def rows(self, statement: str, /, **values: Any) -> list[Row]:
        """Run one statement, read to its end.

        Args:
            statement: Name of a file in `sql/<dialect>/`.
            values: Its named parameters.
        """
        ...


def one(tx: Tx, statement: str, /, **values: Any) -> Row | None:
    """The only row of a statement, None if there is none."""
    rows = tx.rows(statement, **values)
    return rows[0] if rows else None


def dump(value: Any) -> str:
    """Plain data or a message, as the JSON text of a column."""
    return msgspec.json.encode(value).decode()


def load(text: str | None, shape: Any) -> Any:
    """The reverse of `dump`; NULL stays None."""
    return None if text is None else msgspec.json.decode(text, type=shape)
