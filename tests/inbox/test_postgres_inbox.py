"""The inbox in PostgreSQL, through psycopg, blocking and awaited."""

from __future__ import annotations

import uuid

import psycopg
import pytest

from planrun.core.errors import Invalid
from planrun.inbox import AsyncInbox, Inbox
from tests.services.postgres import NEEDS, Postgres

from .inbox_contract import InboxContract

pytestmark = pytest.mark.needs(NEEDS)


@pytest.fixture
def database(postgres: Postgres) -> str:
    """A schema of the test's own."""
    name = f"t{uuid.uuid4().hex}"
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute(f'CREATE SCHEMA "{name}"')
    return f"{postgres.dsn} options='-c search_path={name}'"


class TestPostgresInbox(InboxContract):
    def test_without_a_transaction_nothing_is_written_down(self, database: str) -> None:
        with psycopg.connect(database, autocommit=True) as connection:
            inbox = Inbox(connection)
            inbox.create()
            with pytest.raises(Invalid, match="no transaction is open"):
                inbox.once("a")
            with connection.transaction():
                assert inbox.once("a")
            with connection.transaction():
                assert not inbox.once("a")

    def test_a_database_killed_before_the_commit_knows_nothing_of_it(self, database: str, postgres: Postgres) -> None:
        """And one killed after it knows both."""
        with psycopg.connect(database) as connection:
            Inbox(connection).create()
        connection = psycopg.connect(database)
        assert Inbox(connection).once("committed")
        connection.commit()
        assert Inbox(connection).once("lost")
        postgres.kill()
        postgres.start()
        with pytest.raises(psycopg.OperationalError):
            connection.commit()
        connection.close()

        with psycopg.connect(database) as connection:
            assert [Inbox(connection).once(each) for each in ("committed", "lost")] == [False, True]


@pytest.mark.anyio
async def test_awaited_it_does_the_same(database: str) -> None:
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
        inbox = AsyncInbox(connection)
        await inbox.create()
        with pytest.raises(Invalid, match="no transaction is open"):
            await inbox.once("a")
        with pytest.raises(ZeroDivisionError):
            async with connection.transaction():
                assert await inbox.once("a")
                raise ZeroDivisionError
        async with connection.transaction():
            assert [await inbox.once("a"), await inbox.once("a")] == [True, False]
        assert [await inbox.prune(), await inbox.prune(keep_s=-60)] == [0, 1]
