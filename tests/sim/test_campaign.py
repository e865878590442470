"""Many histories: what is said while they run, and what is left when somebody ends them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from planrun.cli import sim as command
from planrun.cli.exits import Exit
from planrun.cli.sim import sim
from planrun.clock import Clock, SystemClock
from planrun.sim.campaign import AT_ONCE, Campaign, Tally, run_campaign
from tests.contract.manual_clock import ManualClock
from tests.ledger.plain import wait_until


def hears_no_interrupts(pid: int) -> bool:
    match = re.search(r"^SigBlk:\s*(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return match is not None and bool(int(match[1], 16) >> signal.SIGINT - 1 & 1)


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_ctrl_c_sums_up_what_was_run_until_then() -> None:
    heeding = ["env", "--default-signal=INT"]  # whoever runs tests in the background has it ignored
    run = subprocess.Popen(
        [
            *heeding,
            Path(sys.executable).with_name("planrun"),
            "sim",
            "--minutes",
            "5",
            "--processes",
            "2",
            "--jobs",
            "1",
            "--json",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_until(lambda: sum(map(hears_no_interrupts, children_of(run.pid))) == 2)
    os.killpg(run.pid, signal.SIGINT)  # as a terminal does
    out, err = run.communicate(timeout=60)

    assert run.returncode == Exit.INTERRUPTED, err
    assert json.loads(out)["histories"] % AT_ONCE == 0
    assert "Traceback" not in err


def test_what_had_run_in_this_process_when_it_is_interrupted_counts() -> None:
    whole = Tally()

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_campaign(Campaign(first=1, last=40, jobs=1), SystemClock.open_system(), whole, tell=interrupt)

    assert whole.histories == AT_ONCE


def test_what_does_not_hold_is_said_at_once_and_how_far_it_is_once_a_minute(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = ManualClock()

    def run(campaign: Campaign, clock_: Clock, whole: Tally, *, tell: Callable[[], None]) -> None:
        whole.add(Tally(histories=10))
        tell()
        assert capsys.readouterr().err == ""
        clock.advance(61)
        whole.add(Tally(histories=10))
        tell()
        assert capsys.readouterr().err == "after 1 min: 20 histories, all of them held\n"
        whole.add(Tally(histories=10, failed={27: ["S9 at 3 s: other bytes"]}))
        tell()
        tell()
        assert (
            capsys.readouterr().err == "VIOLATION in seed 27: S9 at 3 s: other bytes\n  planrun sim --seed 27 --trace\n"
        )
        clock.advance(60)
        tell()
        assert capsys.readouterr().err == "after 2 min: 30 histories, 1 did not hold\n"

    monkeypatch.setattr(command, "run_campaign", run)
    monkeypatch.setattr(SystemClock, "open_system", lambda: clock)

    assert sim(minutes=3) == Exit.FAILED
    assert "VIOLATION in seed 27" in capsys.readouterr().out
