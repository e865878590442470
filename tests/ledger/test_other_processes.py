"""Other processes on the same file: frozen inside a transaction, killed in the middle of commits, or not planrun."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
import time
from pathlib import Path

import apsw
import pytest

from planrun.core.errors import LedgerBusy
from planrun.ledger.contract import Ledger
from planrun.ledger.sqlite.database import connect
from planrun.wiring import open_ledger

from .plain import a_holder, a_party, a_request, wait_until

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


async def test_a_writer_frozen_inside_a_transaction_is_named_and_all_goes_on_when_it_does(
    ledger: Ledger, url: str, tmp_path: Path
) -> None:
    trips = tmp_path / "trips"
    trips.mkdir()
    (trips / "ledger:before-commit").touch()
    hasty = open_ledger(url, wait_s=0.3)
    with a_party(url, "frozen", 3, trips=trips) as party:
        wait_until(lambda: is_stopped(party.pid))

        with pytest.raises(LedgerBusy, match=rf"kill -CONT {party.pid}") as caught:
            await hasty.submit([a_request("hasty")])
        assert caught.value.holder_pid == party.pid
        assert await ledger.job(None, "frozen-0") is None  # reading goes on, and sees no half of it
        patient = asyncio.ensure_future(ledger.submit([a_request("patient")]))
        await asyncio.sleep(0.1)
        assert not patient.done()

        os.kill(party.pid, signal.SIGCONT)

        [reply] = await patient
        assert reply.disposition == "new"
        assert await asyncio.to_thread(party.wait, 20) == 0
    assert (await ledger.counts(None))["queued"] == 4
    assert await ledger.job(None, "hasty") is None  # "nothing was done" is a definite answer
    assert [reply.disposition for reply in await hasty.submit([a_request("hasty")])] == ["new"]
    await hasty.close()


async def test_a_frozen_writer_that_is_killed_leaves_nothing_half_written(
    ledger: Ledger, url: str, tmp_path: Path
) -> None:
    trips = tmp_path / "trips"
    trips.mkdir()
    (trips / "ledger:before-commit").touch()
    with a_party(url, "frozen", 1, trips=trips) as party:
        wait_until(lambda: is_stopped(party.pid))
        waiting = asyncio.ensure_future(ledger.submit([a_request("next")]))
        party.kill()
        await waiting

    assert await ledger.job(None, "frozen-0") is None
    assert (await ledger.counts(None))["queued"] == 1


async def test_a_lock_held_by_another_program_delays_and_loses_nothing(ledger: Ledger, path: Path) -> None:
    """C30: such as a person in a SQLite shell."""
    foreign = apsw.Connection(str(path))
    foreign.execute("BEGIN IMMEDIATE")
    waiting = [asyncio.ensure_future(ledger.submit([a_request(f"r{n}")])) for n in range(20)]
    await asyncio.sleep(0.2)
    assert not any(call.done() for call in waiting)

    foreign.execute("ROLLBACK")
    replies = await asyncio.gather(*waiting)

    assert [reply.disposition for [reply] in replies] == ["new"] * 20
    foreign.close()


async def test_a_lock_that_another_program_never_lets_go_is_an_honest_busy(
    url: str, ledger: Ledger, path: Path
) -> None:
    hasty = open_ledger(url, wait_s=0.3)
    foreign = apsw.Connection(str(path))
    foreign.execute("BEGIN IMMEDIATE")

    with pytest.raises(LedgerBusy, match="not planrun") as caught:
        await hasty.submit([a_request("r1")])

    assert caught.value.holder_pid == 0  # certainly not ourselves, who wait for it too
    foreign.execute("ROLLBACK")
    foreign.close()
    assert [reply.disposition for reply in await ledger.submit([a_request("r1")])] == ["new"]
    await hasty.close()


async def test_what_was_acknowledged_survives_a_kill_in_the_middle_of_commits(
    ledger: Ledger, url: str, path: Path
) -> None:
    luck = random.Random(20)
    acknowledged: set[str] = set()
    for round_ in range(6):
        with a_party(url, f"round-{round_}", 100_000) as party:
            assert party.stdout is not None
            acknowledged.add(party.stdout.readline().strip())
            await asyncio.sleep(luck.uniform(0.02, 0.12))
            party.kill()
            acknowledged |= {
                line.strip() for line in party.stdout.read().splitlines(keepends=True) if line.endswith("\n")
            }

    assert connect(path).pragma("integrity_check") == "ok"
    assert len(acknowledged) > 6
    for request_id in acknowledged:
        assert await ledger.job("default", request_id) is not None, f"{request_id} was acknowledged and is gone"
    assert await ledger.violations() == []
    counted = connect(path).execute("SELECT (SELECT count(*) FROM job), (SELECT sum(jobs) FROM counted)").fetchall()[0]
    jobs, requests = (int(str(n)) for n in counted)
    assert jobs == requests >= len(acknowledged)


async def test_saturating_writers_take_turns(ledger: Ledger, url: str) -> None:
    """SQLite's own lock queue would let one of them starve; a heartbeat must not wait for seconds."""
    with a_party(url, "a", 100_000) as one, a_party(url, "b", 100_000) as two:
        for party in (one, two):
            assert party.stdout is not None
            party.stdout.readline()
        waits = []
        for n in range(30):
            began = time.monotonic()
            await ledger.submit([a_request(f"mine-{n}")])
            waits.append(time.monotonic() - began)

    assert sorted(waits)[len(waits) // 2] < 0.5
    assert max(waits) < 5


async def test_a_ledger_closed_behind_a_frozen_process_writes_into_no_other_file(url: str, tmp_path: Path) -> None:
    """Its thread still stands in line; the descriptors that it will use must not become those of other files."""
    others = set(threading.enumerate())
    ledger = open_ledger(url, wait_s=0.2)
    holder = a_holder(tmp_path / "ledger.db.turn")
    assert holder.stdout is not None
    holder.stdout.readline()
    with pytest.raises(LedgerBusy):
        await ledger.submit([a_request("waits")])
    await ledger.close()
    files = [(tmp_path / f"file-{n}").open("w+") for n in range(30)]
    for file in files:
        file.write("precious")
        file.flush()
    holder.communicate("go\n")
    ours = [thread for thread in threading.enumerate() if thread.name == "planrun-ledger-writer"]
    wait_until(lambda: not any(thread.is_alive() for thread in ours if thread not in others))

    assert [Path(file.name).read_text() for file in files] == ["precious"] * 30
    for file in files:
        file.close()
