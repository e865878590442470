"""Proof of death: what a free lock says, and what it does not."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from planrun.core.errors import LedgerUnusable
from planrun.core.messages import WorkerRow
from planrun.lockfile import (
    NoProof,
    ProvenDead,
    WorkerLock,
    find_released,
    hold_ledger,
    locks_hold,
    prove_dead,
    watch_death,
)

# Takes the lock, starts a child that inherits it, says who they are, and waits.
HOLDER = """
import subprocess, sys
from pathlib import Path
from planrun.lockfile import WorkerLock

lock = WorkerLock.acquire(Path(sys.argv[1]), "w1")
tree = subprocess.Popen(["sleep", "60"], pass_fds=[lock.fd] if sys.argv[2] == "tree" else [])
print(tree.pid, flush=True)
sys.stdin.read()
"""


def row_of(lock: WorkerLock) -> WorkerRow:
    return WorkerRow(
        incarnation=lock.path.name,
        name="w1",
        host="box",
        slots=1,
        lock_file=str(lock.path),
        lock_device=lock.device,
        lock_inode=lock.inode,
    )


def row_at(path: Path) -> WorkerRow:
    found = path.stat()
    return WorkerRow(
        incarnation="w1",
        name="w1",
        host="box",
        slots=1,
        lock_file=str(path),
        lock_device=found.st_dev,
        lock_inode=found.st_ino,
    )


@pytest.fixture(params=["tree", "alone"])
def holder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path), request.param],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    child = int(process.stdout.readline())
    yield process, child
    for pid in (process.pid, child):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.communicate()


def wait_until_proven(worker: WorkerRow) -> None:
    deadline = time.monotonic() + 5
    while not isinstance(prove_dead(worker), ProvenDead):
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_lock_that_is_held_proves_nothing_and_a_free_one_proves_death(tmp_path: Path) -> None:
    lock = WorkerLock.acquire(tmp_path / "workers", "w1")
    worker = row_of(lock)

    assert isinstance(prove_dead(worker), NoProof)
    lock.close()
    assert prove_dead(worker) == ProvenDead()


def test_the_file_tells_people_the_pid(tmp_path: Path) -> None:
    lock = WorkerLock.acquire(tmp_path, "w1")

    assert (tmp_path / "w1").read_text() == f"{os.getpid()}\n"
    lock.remove()


def test_an_incarnation_exists_once(tmp_path: Path) -> None:
    lock = WorkerLock.acquire(tmp_path, "w1")

    with pytest.raises(FileExistsError):
        WorkerLock.acquire(tmp_path, "w1")
    lock.close()


def test_two_who_probe_at_once_both_get_the_proof(tmp_path: Path) -> None:
    lock = WorkerLock.acquire(tmp_path, "w1")
    worker = row_of(lock)
    lock.close()
    with (tmp_path / "w1").open() as other:
        import fcntl  # noqa: PLC0415

        fcntl.flock(other, fcntl.LOCK_SH)

        assert prove_dead(worker) == ProvenDead()


def test_a_missing_file_is_no_proof_and_is_not_made(tmp_path: Path) -> None:
    lock = WorkerLock.acquire(tmp_path, "w1")
    worker = row_of(lock)
    lock.remove()

    assert isinstance(prove_dead(worker), NoProof)
    assert list(tmp_path.iterdir()) == []


def test_another_file_at_the_same_path_is_no_proof(tmp_path: Path) -> None:
    """A restored or re-created file is free, although its worker lives on with the old one."""
    lock = WorkerLock.acquire(tmp_path, "w1")
    worker = row_of(lock)
    lock.path.rename(tmp_path / "moved")
    lock.path.touch()

    proof = prove_dead(worker)

    assert isinstance(proof, NoProof)
    assert "is not the file" in proof.why
    lock.close()


def test_a_link_or_a_pipe_at_that_path_is_no_proof_and_never_waits(tmp_path: Path) -> None:
    lock = WorkerLock.acquire(tmp_path, "w1")
    worker = row_of(lock)
    lock.path.rename(tmp_path / "moved")

    lock.path.symlink_to(tmp_path / "moved")
    assert isinstance(prove_dead(worker), NoProof)
    lock.path.unlink()
    os.mkfifo(lock.path)
    assert isinstance(prove_dead(worker), NoProof)
    lock.close()


def test_a_worker_without_a_lock_file_cannot_be_proven_dead() -> None:
    assert isinstance(prove_dead(WorkerRow(incarnation="w1", name="w1", host="box", slots=1)), NoProof)


def test_a_killed_worker_is_dead_only_when_its_job_trees_are(
    holder: tuple[subprocess.Popen[str], int], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    process, child = holder
    worker = row_at(tmp_path / "w1")
    assert isinstance(prove_dead(worker), NoProof)

    process.kill()
    process.wait()

    if "tree" in request.node.callspec.id:
        assert isinstance(prove_dead(worker), NoProof)
        os.kill(child, signal.SIGKILL)
    wait_until_proven(worker)


def test_a_stopped_worker_is_not_dead(holder: tuple[subprocess.Popen[str], int], tmp_path: Path) -> None:
    process, _ = holder
    process.send_signal(signal.SIGSTOP)

    assert isinstance(prove_dead(row_at(tmp_path / "w1")), NoProof)


def test_the_end_of_a_process_is_seen_through_its_descriptor() -> None:
    process = subprocess.Popen(["sleep", "60"])
    fd = watch_death(process.pid)
    assert fd is not None
    assert select.select([fd], [], [], 0)[0] == []

    process.kill()

    assert select.select([fd], [], [], 5)[0] == [fd]
    os.close(fd)
    process.wait()
    assert watch_death(process.pid) is None


def test_an_orchestrator_has_a_ledger_alone_and_workers_share_it(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db.alone"
    workers = [hold_ledger(path, alone=False), hold_ledger(path, alone=False)]
    with pytest.raises(LedgerUnusable, match=rf"a worker \(process {os.getpid()}\) has .*ledger\.db open"):
        hold_ledger(path, alone=True)
    for held in workers:
        os.close(held)

    alone = hold_ledger(path, alone=True)
    with pytest.raises(LedgerUnusable, match=rf"another orchestrator \(process {os.getpid()}\)"):
        hold_ledger(path, alone=True)
    with pytest.raises(LedgerUnusable, match=rf"an orchestrator \(process {os.getpid()}\) owns"):
        hold_ledger(path, alone=False)
    os.close(alone)


def test_a_lock_file_counts_as_left_once_it_was_held_and_is_free(tmp_path: Path) -> None:
    living = WorkerLock.acquire(tmp_path, "living")
    gone = WorkerLock.acquire(tmp_path, "gone")
    gone.close()
    (tmp_path / "just-made").touch()

    assert [path.name for path in find_released(tmp_path)] == ["gone"]
    living.close()


def test_locks_that_keep_nobody_out_are_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert locks_hold(tmp_path / "workers", "check")
    monkeypatch.setattr("planrun.lockfile.fcntl.flock", lambda fd, how: None)

    assert not locks_hold(tmp_path / "workers", "check")
    assert list((tmp_path / "workers").iterdir()) == []
