"""What an application may rely on, whichever database it keeps the ids in."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, AnyStr

import pytest

from planrun.inbox import Inbox

from .receiver_main import connect

STEPS = ["receiver:written-down", "receiver:acted", "receiver:committed"]
DAY_S = 24 * 3600


class InboxContract:
    """A backend gives `database`: what `connect` takes, with nothing in it."""

    @pytest.fixture
    def connection(self, database: str) -> Any:
        connection = connect(database)
        Inbox(connection).create()
        connection.cursor().execute("CREATE TABLE account(balance INTEGER)")
        connection.cursor().execute("INSERT INTO account VALUES (0)")
        connection.commit()
        yield connection
        connection.close()

    @staticmethod
    def balance(connection: Any) -> int:
        cursor = connection.cursor()
        cursor.execute("SELECT balance FROM account")
        [(balance,)] = cursor.fetchall()
        connection.rollback()
        return int(balance)

    def test_the_first_time_is_told_from_every_other(self, connection: Any) -> None:
        inbox = Inbox(connection)
        first = [inbox.once("a"), inbox.once("a"), inbox.once("b")]
        connection.commit()

        assert first == [True, False, True]
        assert not inbox.once("a")

    def test_the_table_is_made_once_and_may_be_asked_for_again(self, connection: Any) -> None:
        Inbox(connection).once("a")
        Inbox(connection).create()
        connection.commit()

        assert not Inbox(connection).once("a")

    def test_a_rolled_back_effect_takes_the_id_along(self, connection: Any) -> None:
        inbox = Inbox(connection)
        assert inbox.once("a")
        connection.rollback()

        assert inbox.once("a")

    def test_ids_are_text_of_any_kind(self, connection: Any) -> None:
        inbox = Inbox(connection)
        ids = ["result:j:webhook:https://a.example/%20?x='1'--", "ü🎬", "x" * 2500, "%s", "?"]

        assert [inbox.once(each) for each in (*ids, *ids)] == [True] * 5 + [False] * 5

    def test_only_old_ids_are_forgotten(self, connection: Any) -> None:
        inbox = Inbox(connection)
        inbox.once("old")
        connection.cursor().execute(f"UPDATE planrun_inbox SET seen_at_s = seen_at_s - {14 * DAY_S + 60}")
        inbox.once("young")
        connection.cursor().execute(f"UPDATE planrun_inbox SET seen_at_s = seen_at_s - {DAY_S}")

        assert inbox.prune() == 1
        assert [inbox.once("young"), inbox.once("old")] == [False, True]
        assert inbox.prune(keep_s=3600) == 1

    # --- in processes of their own ---

    @pytest.mark.slow
    @pytest.mark.parametrize("step", STEPS)
    def test_a_receiver_killed_before_it_acknowledges_acts_once(
        self, connection: Any, database: str, tmp_path: Path, step: str
    ) -> None:
        """The message comes again: to one that knows nothing of it, or to one that finds it done."""
        killed = held_at(step, database, tmp_path)
        killed.kill()
        killed.communicate()

        said = [receive(database), receive(database)]

        assert said == ["known" if step == "receiver:committed" else "new", "known"]
        assert self.balance(connection) == 1

    @pytest.mark.slow
    @pytest.mark.parametrize("is_killed", [True, False])
    def test_of_two_receivers_of_one_message_at_once_one_acts(
        self, connection: Any, database: str, tmp_path: Path, is_killed: bool
    ) -> None:
        """The second one waits for the first one's end, whatever that is."""
        first = held_at("receiver:acted", database, tmp_path)
        second = start(database)
        with pytest.raises(subprocess.TimeoutExpired):
            second.wait(0.5)
        if is_killed:
            first.kill()
        else:
            first.send_signal(signal.SIGCONT)
        said = [process.communicate(timeout=30)[0].strip() for process in (first, second)]

        assert said == (["", "new"] if is_killed else ["new", "known"])
        assert self.balance(connection) == 1


def start(database: str, trips: Path | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.inbox.receiver_main", database, "result:j:webhook:https://app.example/"],
        env=os.environ | ({"PLANRUN_TRIP_DIR": str(trips)} if trips is not None else {}),
        stdout=subprocess.PIPE,
        text=True,
    )


def receive(database: str) -> str:
    return start(database).communicate(timeout=30)[0].strip()


def held_at(step: str, database: str, trips: Path) -> subprocess.Popen[str]:
    return held(step, trips, lambda: start(database, trips))


def held(step: str, trips: Path, starting: Callable[[], subprocess.Popen[AnyStr]]) -> subprocess.Popen[AnyStr]:
    """A process that stands still at a step."""
    (trips / step).touch()
    process = starting()
    reached = trips / f"{step}.{process.pid}.reached"
    stat = Path(f"/proc/{process.pid}/stat")
    deadline = time.monotonic() + 30
    while not (reached.exists() and stat.read_text().rsplit(")", 1)[1].split()[0] == "T"):
        assert process.poll() is None and time.monotonic() < deadline, f"it did not get to {step}"
        time.sleep(0.01)
    return process
