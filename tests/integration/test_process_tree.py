"""Whatever dies, and however: the whole tree of a job is dead before anybody may believe that it is."""

from __future__ import annotations

import asyncio
import fcntl
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import planrun
from planrun.core.errors import Invalid
from planrun.worker import isolation
from planrun.worker.happenings import Exited, Progress
from planrun.worker.isolation import Level, choose, probe
from planrun.worker.tree import end_marked, mark_of, marked
from tests.jobs.stage import LAB, Stage, living

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SOURCE = Path(planrun.__file__).parents[1]  # another one where a guard was taken down
TREE = 4  # a child, one that ignores SIGTERM in its own session, its child, and a daemon
NOBODY = 65534


@pytest.fixture
def tag() -> Iterator[str]:
    """A number of seconds to sleep that no other process has. Nothing with it outlives the test."""
    tag = f"600.{secrets.randbits(48)}"
    yield tag
    for pid in living(tag):
        os.kill(pid, signal.SIGKILL)


@pytest.fixture
def everybodys() -> Iterator[Path]:
    """A folder that a plain user can reach: those of pytest are root's own."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
async def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


async def start_orphans(stage: Stage, level: Level, tag: str, **params: Any) -> None:
    await stage.start("orphans", level=level)
    stage.run(tag=tag, **params)


async def wait_for_tree(tag: str) -> None:
    deadline_s = time.monotonic() + 10
    while len(sleepers(tag)) < TREE:
        assert time.monotonic() < deadline_s, "the tree did not start"
        await asyncio.sleep(0.01)


def sleepers(tag: str) -> list[int]:
    """Those that have become `sleep`: all shells on the way have started what they had to."""
    found = []
    for pid in living(tag):
        try:
            if Path(f"/proc/{pid}/comm").read_text() == "sleep\n":
                found.append(pid)
        except OSError:
            continue
    return found


@pytest.mark.parametrize("level", list(Level))
async def test_c46_kill_returns_once_the_whole_tree_is_dead(stage: Stage, tag: str, level: Level) -> None:
    await start_orphans(stage, level, tag)
    await stage.until(Progress)
    await wait_for_tree(tag)
    started = time.monotonic()
    exited = await stage.process.kill()

    assert living(tag) == []
    assert (exited.signal, exited.killed) == (signal.SIGKILL, True)
    assert time.monotonic() - started < 2


@pytest.mark.parametrize("then", ["return", "exit", "killed"])
@pytest.mark.parametrize("level", list(Level))
async def test_c45_the_end_of_the_main_process_is_the_end_of_its_tree(
    stage: Stage, tag: str, level: Level, then: str
) -> None:
    await start_orphans(stage, level, tag, then=then)
    exited = await stage.until(Exited)

    assert living(tag) == []
    assert not exited.killed
    assert (exited.code, exited.signal) == {"return": (0, None), "exit": (3, None), "killed": (None, 9)}[then]


@pytest.mark.parametrize("level", list(Level))
async def test_a_killed_launcher_is_noticed_and_its_tree_ended(stage: Stage, tag: str, level: Level) -> None:
    await start_orphans(stage, level, tag)
    await stage.until(Progress)
    await wait_for_tree(tag)
    stage.process._launcher.kill()
    exited = await stage.until(Exited)

    assert living(tag) == []
    assert (exited.code, exited.signal) == (None, None)


@pytest.mark.parametrize("level", list(Level))
async def test_a_frozen_launcher_does_not_stop_the_kill(
    stage: Stage, tag: str, level: Level, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("planrun.worker.process._KILL_TIMEOUT_S", 0.2)
    await start_orphans(stage, level, tag)
    await stage.until(Progress)
    await wait_for_tree(tag)
    for pid in launchers(stage.process._launcher.pid):
        os.kill(pid, signal.SIGSTOP)
    await stage.process.kill()

    assert living(tag) == []


def launchers(pid: int) -> list[int]:
    """The launcher, and process 1 of its namespace, which is a copy of it."""
    own = Path(f"/proc/{pid}/cmdline").read_bytes()
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(int(child) for child in children if Path(f"/proc/{child}/cmdline").read_bytes() == own)]


@pytest.mark.parametrize("level", list(Level))
async def test_c45_the_lock_of_a_killed_worker_is_free_only_after_its_tree_is_dead(
    tmp_path: Path, tag: str, level: Level
) -> None:
    with worker_of([sys.executable], level, tmp_path, tag) as worker:
        await wait_for_tree(tag)
        worker.kill()
        took_s = wait_for_lock(tmp_path / "lock")

        assert living(tag) == []
        assert took_s < 2


@pytest.mark.needs("setpriv")
@pytest.mark.needs_root
@pytest.mark.parametrize("level", list(Level))
async def test_the_same_holds_for_a_plain_user(everybodys: Path, tag: str, level: Level) -> None:
    python = python_of_everybody(everybodys)
    home = everybodys / "nobody"
    home.mkdir()
    os.chown(home, NOBODY, NOBODY)
    as_nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", str(python)]
    with worker_of(as_nobody, level, home, tag) as worker:
        await wait_for_tree(tag)
        owners = {owner_of(pid) for pid in living(tag)}
        worker.kill()
        wait_for_lock(home / "lock")

        assert living(tag) == []
        assert owners == {NOBODY}


async def test_what_a_dead_launcher_left_is_found_by_its_mark(tmp_path: Path, tag: str) -> None:
    with worker_of([sys.executable], Level.GROUP, tmp_path, tag) as worker:
        launcher = int(worker.stdout.readline()) if worker.stdout else 0
        await wait_for_tree(tag)
        worker.send_signal(signal.SIGSTOP)  # so that it cannot clean up itself
        os.kill(launcher, signal.SIGKILL)
        worker.kill()
    mark = mark_of(tag, 1)

    assert len(marked(mark)) >= TREE

    await asyncio.to_thread(end_marked, mark)

    assert living(tag) == []


def test_the_probe_finds_the_surest_level_and_says_what_it_guarantees() -> None:
    assert probe() in Level
    assert choose("group") is Level.GROUP
    for level in Level:
        assert level.sentence.startswith(level.value)


def test_a_level_below_which_a_daemon_lives_on_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "marked", lambda mark: [1])

    with pytest.raises(Invalid, match="does not work here"):
        choose("group")
    assert probe() is Level.GROUP


@pytest.mark.needs("unshare")
@pytest.mark.needs_root
def test_without_the_right_to_make_namespaces_the_probe_falls_back() -> None:
    """Seen as root in a namespace that allows no further ones."""
    code = (
        f"import sys; sys.path.insert(0, {str(SOURCE)!r})\n"
        "from planrun.core.errors import Invalid\n"
        "from planrun.worker.isolation import choose, probe\n"
        "print(probe())\n"
        "try:\n    choose('full')\nexcept Invalid as refusal:\n    print(refusal)\n"
    )
    limit = 'echo 0 > /proc/sys/user/max_pid_namespaces && exec "$@"'
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c", limit, "sh", sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.splitlines() == [
        "subreaper",
        "isolation level full does not work here; use auto, which finds one that does",
    ]


@contextmanager
def worker_of(python: list[str], level: Level, folder: Path, tag: str) -> Iterator[subprocess.Popen[bytes]]:
    """A stand-in for a worker, in a process of its own."""
    command = [*python, str(LAB / "standin_worker.py"), level, str(folder), tag, str(SOURCE)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as worker:
        try:
            yield worker
        finally:
            worker.kill()


def wait_for_lock(path: Path) -> float:
    """Block until the lock can be taken; returns how long that took, seconds."""
    started = time.monotonic()
    with path.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
    return time.monotonic() - started


def python_of_everybody(folder: Path) -> Path:
    """An interpreter that a plain user may start and that finds planrun: this one may lie in root's home."""
    system = shutil.which("python3.11", path="/usr/bin") or shutil.which("python3", path="/usr/bin")
    if system is None or sys.version_info[:2] != version_of(system):
        pytest.skip("no python outside root's home")
    subprocess.run([system, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    packages = next((folder / "venv" / "lib").glob("python3*")) / "site-packages"
    (packages / "planrun.pth").write_text(f"{SOURCE}\n")
    return folder / "venv" / "bin" / "python"


def version_of(python: str) -> tuple[int, ...]:
    said = subprocess.run(
        [python, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True, check=True
    )
    return tuple(map(int, said.stdout.split()))


def owner_of(pid: int) -> int:
    return Path(f"/proc/{pid}").stat().st_uid
