"""How people read a job's state, and how `planrun up` keeps a worker."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from planrun.cli.printing import clean
from planrun.cli.words import size, state_in_words
from planrun.clock import Instant
from planrun.core.durations import span
from planrun.core.life import Reason, State
from planrun.core.messages import JobRow

NOW = Instant(boot_ms=10_000, wall_ms=1_000_000, epoch="boot")


def row(state: State, **fields: Any) -> JobRow:
    plain: dict[str, Any] = {
        "job_id": "j",
        "namespace": "default",
        "kind": "preview",
        "version": "v1",
        "state": state,
        "attempt": 2,
        "failures": 0,
        "max_attempts": 4,
        "losses": 0,
        "max_losses": 8,
        "handbacks": 0,
        "max_handbacks": 20,
        "created_at_ms": 0,
    }
    return JobRow(**(plain | fields))


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (row(State.QUEUED), "waiting for a worker, attempt 2"),
        (row(State.QUEUED, not_before_ms=9_000), "waiting for a worker, attempt 2"),
        (row(State.QUEUED, not_before_ms=14_000), "queued, attempt 2 not before 4.0 s"),
        (row(State.RUNNING, worker="w1"), "running on w1, attempt 2"),
        (row(State.RUNNING, worker="w1", fraction=0.42, message="encoding"), "running on w1, attempt 2, 42%: encoding"),
        (row(State.CANCELED, stopping=True, worker="w1"), "canceled (stopping on w1)"),
        (row(State.CANCELED), "canceled"),
        (row(State.FAILED, reason=Reason.EXHAUSTED), "failed (exhausted)"),
        (row(State.FINISHED), "finished"),
    ],
)
def test_c77_every_state_has_words_that_say_what_goes_on(seen: JobRow, words: str) -> None:
    assert state_in_words(seen, NOW) == words


def test_durations_and_sizes_are_short() -> None:
    assert [span(ms) for ms in (400, 12_000, 300_000, 3 * 3_600_000, 3 * 86_400_000)] == [
        "0.4 s",
        "12 s",
        "5 min",
        "3 h",
        "3 d",
    ]
    assert [size(count) for count in (812, 1_500_000, 3 * 1024**4)] == ["812 B", "1.4 MiB", "3.0 TiB"]


def test_what_a_job_says_cannot_steer_a_terminal() -> None:
    assert clean("a\x1b]0;title\x07\r\nb\tc") == "a\N{REPLACEMENT CHARACTER}]0;title\N{REPLACEMENT CHARACTER}" + (
        "\N{REPLACEMENT CHARACTER}\nb\tc"
    )


KEEP = "import sys; from planrun.cli.up import Keeper; sys.exit(Keeper([sys.executable, '-c', sys.argv[1]]).run())"


def test_a_worker_that_breaks_starts_again_until_it_ends_well(tmp_path: Path) -> None:
    worker = f"""
import sys
from pathlib import Path
seen = Path({str(tmp_path / "starts")!r})
first = not seen.exists()
seen.open("a").write("x")
sys.exit(70 if first else 0)
"""
    kept = subprocess.run([sys.executable, "-c", KEEP, worker], capture_output=True, text=True, timeout=60, check=False)

    assert (kept.returncode, (tmp_path / "starts").read_text()) == (0, "xx")
    assert "exited with 70; it starts again in 1 s" in kept.stderr


def test_a_worker_that_can_never_start_is_not_tried_again() -> None:
    kept = subprocess.run([sys.executable, "-c", KEEP, "raise SystemExit(2)"], timeout=60, check=False)

    assert kept.returncode == 2


def test_a_signal_reaches_the_worker_and_ends_its_keeper_with_it() -> None:
    worker = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("ready", flush=True)
signal.pause()
"""
    with subprocess.Popen([sys.executable, "-c", KEEP, worker], stdout=subprocess.PIPE, text=True) as keeper:
        assert keeper.stdout is not None
        assert keeper.stdout.readline() == "ready\n"
        keeper.send_signal(signal.SIGINT)

        assert keeper.wait(timeout=30) == 0
