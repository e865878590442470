"""`bench/torture` counts: what the observer makes of a planted history, and that each peer says how it is set up."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from bench.contender import Contender, Note, peers, settings
from bench.peers.note import ANSWERED, ENDED, STARTED, attempt_file, result_file
from bench.torture.history import GONE, SEEN, Counted, count, running
from bench.torture.observer import Observer
from bench.torture.scenarios import Lengths, Stage
from bench.torture.table import Run, table

ROOT = Path(__file__).parents[2]
HELD_UP = [  # the first attempt, at 1, is frozen at 5; the second, at 20, ends before the first thaws and writes
    (STARTED, 1, 1),
    (STARTED, 20, 20),
    (ENDED, 30, 20),
    (SEEN, 30.1, 20),
    (ANSWERED, 30.5, 20),
    (ENDED, 40, 1),
    (SEEN, 40.1, 1),
    (ANSWERED, 40.2, 1),
]


def history(*lines: tuple[str, float, float]) -> list[Note]:
    return [Note(word, 7, at_s, 0, attempt) for word, at_s, attempt in lines]


def counted(*lines: tuple[str, float, float], since_s: float = 5, keeps_results: bool = True) -> Counted:
    return count(history(*lines), since_s=since_s, keeps_results=keeps_results)


def test_a_late_attempt_that_replaces_a_result_is_counted_in_the_file_and_in_the_peers_own_store() -> None:
    assert counted(*HELD_UP) == Counted(
        starts=2,
        second_s=15,
        result_s=25.5,
        at_once=2,
        lost=False,
        overwritten=1,
        late=1,
        answers_overwritten=1,
        answers_late=1,
    )


def test_an_attempt_that_runs_after_another_and_replaces_its_result_is_not_late() -> None:
    lines = [(STARTED, 1, 1), (ENDED, 9, 1), (SEEN, 9, 1), (STARTED, 10, 10), (ENDED, 19, 10), (SEEN, 19, 10)]

    seen = counted(*lines, keeps_results=False)

    assert (seen.starts, seen.at_once, seen.overwritten, seen.late) == (2, 1, 1, 0)


def test_a_job_without_a_result_is_lost_and_a_file_does_not_stand_in_for_what_the_peer_keeps() -> None:
    only_file = [(STARTED, 1, 1), (ENDED, 9, 1), (SEEN, 9, 1)]

    assert counted((STARTED, 1, 1), (GONE, 5, 1)).lost
    assert counted(*only_file).lost
    assert not counted(*only_file, keeps_results=False).lost


def test_a_start_before_the_disturbance_is_no_second_start_and_a_killed_attempt_does_not_run_on() -> None:
    lines = [(STARTED, 1, 1), (GONE, 5.1, 1), (STARTED, 6, 6)]

    seen = counted(*lines)

    assert (seen.second_s, seen.at_once) == (1, 1)
    assert running(history(*lines)) == {6}
    assert counted(*lines[:2]).second_s is None


def test_the_observer_sees_a_replaced_file_and_the_end_of_a_process_that_says_nothing(tmp_path: Path) -> None:
    contender = Contender(peers()["planrun"], tmp_path, {}, Path(sys.executable))
    (tmp_path / "notes").write_text("started 7 1.5 2 1.5\nstarted 8 1.5 2 1.5\n")
    observer = Observer(contender, 7)

    with attempt_file(tmp_path, 1.5).open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        observer.tick(2)
        assert running(observer.history()) == {1.5}
    for now_s, attempt in ((3, 20), (4, 20), (5, 1.5)):
        result_file(tmp_path, 7).write_text(json.dumps({"attempt": attempt}))
        observer.tick(now_s)

    own = [(note.word, note.at_s, note.attempt) for note in observer.history() if note.word != STARTED]
    assert sorted(own) == [(GONE, 2, 1.5), (SEEN, 3, 20), (SEEN, 5, 1.5)]


def test_the_table_says_in_vain_and_how_often() -> None:
    run = Run("planrun", "whole", 0, counted((STARTED, 1, 1), (STARTED, 6, 6), (ANSWERED, 9, 6)), {}, 90, 1.0)
    never = replace(run, turn=1, counted=counted((STARTED, 1, 1)))

    shown = table([run, never]).splitlines()[-1]

    assert shown == "| **planrun** | 1.0 s; **not in 90 s**, 1 of 2 | **1** of 2 |"


NEXT_TOO = [  # the first attempt goes on beside the second, which began later and replaces its result
    (STARTED, 1, 1),
    (STARTED, 20, 20),
    (ENDED, 30, 1),
    (SEEN, 30, 1),
    (ANSWERED, 30, 1),
    (ENDED, 40, 20),
    (SEEN, 40, 20),
]


def test_the_table_tells_a_late_attempt_from_the_next_one() -> None:
    late, following = counted(*HELD_UP), counted(*NEXT_TOO)

    def shown(scenario: str, *these: Counted) -> str:
        runs = [Run("planrun", scenario, turn, each, {}, 90, 1.0) for turn, each in enumerate(these)]
        return table(runs).splitlines()[-1].split(" | ")[-2]

    assert shown("freeze", following, following) == "file 0 of 2, store 0 of 2"
    assert shown("freeze", late, following) == "file **1 of 2**, store **1 of 2**"
    by_next = "2 starts, 2 at once; replaced by the next attempt: file **1 of 1**, store 0 of 1"
    assert shown("longer", following) == by_next
    by_late = "2 starts, 2 at once; by a late one: file **1 of 1**, store **1 of 1**"
    assert shown("longer", late) == by_late


def test_a_worker_that_has_gone_is_started_again_by_its_own_command(tmp_path: Path) -> None:
    contender = Contender(peers()["planrun"], tmp_path, {}, Path(sys.executable))
    stage = Stage(contender, Observer(contender, 7), Lengths(watch_s=0))
    command = ["sleep", "60"]
    first = stage.start(command)
    contender.kill(first)

    stage.supervise()
    stage.supervise()

    assert len(contender.workers) == 1
    assert contender.workers[0].args == first.args
    contender.kill()


def test_each_peer_says_how_it_is_set_up_and_why_and_is_set_up_so() -> None:
    for name in peers():
        source = (ROOT / "bench" / "peers" / f"{name}.py").read_text()
        said = settings(name)

        assert said, name
        _, _, code = source.partition("\n}\n")
        for setting, reason in said.items():
            assert setting in code, (name, setting)
            assert reason, (name, setting)


def test_an_unknown_peer_or_scenario_is_answered_with_what_there_is() -> None:
    for option, known in (("--peers", "huey"), ("--scenarios", "freeze")):
        command = [sys.executable, "-m", "bench.torture", option, "nonsense"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)

        assert done.returncode == 1
        assert "'nonsense' is unknown: use some of" in done.stderr
        assert known in done.stderr
