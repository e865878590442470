"""One of the compared: its own environment, folder, workers, and the notes that its jobs leave."""

from __future__ import annotations

import ast
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from bench.peers.note import ENDED, STARTED

HERE = Path(__file__).parent
ROOT = HERE.parent
ASK_S_MAX = 300


class Unfit(Exception):
    """This peer cannot be measured here; says why and what to do."""


@dataclass(frozen=True)
class Peer:
    """One table of `peers.toml`."""

    name: str
    requires: Sequence[str]
    servers: Sequence[str]
    fsynced: bool
    stored: str
    results: str


def peers() -> dict[str, Peer]:
    tables = tomllib.loads((HERE / "peers" / "peers.toml").read_text())
    return {name: Peer(name=name, **table) for name, table in tables.items()}


def settings(name: str) -> dict[str, str]:
    """What a peer is given beside its defaults, and why; read, not run: its module needs its own environment."""
    for statement in ast.parse((HERE / "peers" / f"{name}.py").read_text()).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="SETTINGS")], value=value):
                said: dict[str, str] = ast.literal_eval(value)
                return said
    return {}


@dataclass(frozen=True)
class Note:
    """One line of a job or a submitter. `at_s` is CLOCK_MONOTONIC; `pid` as that process knows itself.

    `attempt` is the time of the start that it belongs to, which names it.
    """

    word: str
    number: int
    at_s: float
    pid: int
    attempt: float


@dataclass
class Contender:
    peer: Peer
    folder: Path
    servers: Mapping[str, str]
    python: Path
    grace_s: float = 15
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _beside: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _is_closed: bool = False
    _environment: dict[str, str] = field(default_factory=dict)

    @property
    def _notes_file(self) -> Path:
        return self.folder / "notes"

    def prepare(self, *, slots: int = 1, fresh: bool = False) -> None:
        """End what runs, and begin with an empty queue."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self._environment = {
            **os.environ,
            **{f"BENCH_{name.upper()}": address for name, address in self.servers.items()},
            "BENCH_FOLDER": str(self.folder),
            "BENCH_NOTES": str(self._notes_file),
            "BENCH_BINARIES": str(self.python.parent),
            "BENCH_QUEUE": f"bench-{uuid4().hex[:8]}",
            "BENCH_GRACE_S": str(self.grace_s),
            "BENCH_SLOTS": str(slots),
            "BENCH_FRESH": str(int(fresh)),
            "PYTHONPATH": str(ROOT),
            "PYTHONWARNINGS": "ignore",
        }
        self.forget()
        for command in self.ask("prepare") or []:
            self._beside.append(self._start(command))

    def ask(self, verb: str, *words: object) -> Any:
        """See `peers/ask.py`."""
        asking = self._start(self._asking(verb, *words), output=subprocess.PIPE)
        self._beside.append(asking)
        try:
            said, errors = (text.decode() for text in asking.communicate(timeout=ASK_S_MAX))
        except subprocess.TimeoutExpired:
            raise Unfit(f"{self.peer.name} {verb}: no answer in {ASK_S_MAX} s") from None
        finally:
            self.kill(asking)
        if asking.returncode:
            raise Unfit(f"{self.peer.name} {verb}: {errors.strip()[-1500:]}")
        return json.loads(said.splitlines()[-1])

    def watch(self, number: int) -> subprocess.Popen[bytes]:
        """Have it noted whose result the peer shows, as long as the returned process lives."""
        watching = self._start(self._asking("watch", number))
        self._beside.append(watching)
        return watching

    def _asking(self, verb: str, *words: object) -> list[str]:
        return [str(self.python), "-m", "bench.peers.ask", self.peer.name, verb, *map(str, words)]

    # --- workers ---

    def start_workers(self, count: int) -> list[subprocess.Popen[bytes]]:
        return [self.start_worker(command) for command in self.ask("workers", count)]

    def start_worker(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        self.workers.append(self._start(command))
        return self.workers[-1]

    def close(self) -> None:
        """End what runs, and start nothing any more, whichever thread wants it."""
        self._is_closed = True
        self.kill()

    def _start(self, command: Sequence[str], *, output: int | None = None) -> subprocess.Popen[bytes]:
        """What it prints goes to the log of the workers, or to `output`."""
        if self._is_closed:
            raise Unfit(f"{self.peer.name}: was told to end")
        with (self.folder / "workers.log").open("ab") as log:
            return subprocess.Popen(
                command,
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output or log,
                stderr=output or log,
                start_new_session=True,
            )

    def kill(self, *workers: subprocess.Popen[bytes]) -> None:
        """SIGKILL workers, with everything that they started; all, and what runs beside them, if none is named."""
        for worker in workers or (*self.workers, *self._beside):
            if worker.poll() is None:
                for pid in family(worker.pid):
                    end(pid)
            worker.wait()
            for those in (self.workers, self._beside):
                with suppress(ValueError):
                    those.remove(worker)

    def cpu_s(self) -> float:
        """CPU time of all workers so far, with what they started, ended processes too."""
        return sum(cpu_s(pid) for worker in self.workers for pid in family(worker.pid))

    # --- notes ---

    def forget(self) -> None:
        self._notes_file.write_bytes(b"")

    def notes(self) -> list[Note]:
        whole, _, _ = self._notes_file.read_text().rpartition("\n")
        lines = [line.split() for line in whole.splitlines()]
        return [
            Note(word, int(number), float(at_s), int(pid), float(attempt)) for word, number, at_s, pid, attempt in lines
        ]

    def starts(self, number: int | None = None) -> list[Note]:
        return [note for note in self.notes() if note.word == STARTED and number in (None, note.number)]

    def ended(self, number: int) -> list[Note]:
        return [note for note in self.notes() if note.word == ENDED and note.number == number]

    def wait_until(self, seen: Callable[[], object], *, timeout_s: float, every_s: float = 0.05) -> bool:
        deadline = time.monotonic() + timeout_s
        while not seen():
            if time.monotonic() > deadline:
                return False
            time.sleep(every_s)
        return True

    def last_words(self) -> str:
        return (self.folder / "workers.log").read_text()[-1500:]


def end(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def cpu_s(pid: int) -> float:
    """Of a process and its ended children; 0 if it has ended itself."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def family(pid: int) -> list[int]:
    """A process and all that descend from it, parents first."""
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has ended
        children.setdefault(parent, []).append(int(status.parent.name))
    found = [pid]
    for member in found:
        found += children.get(member, [])
    return found


def process_of(note: Note, worker: subprocess.Popen[bytes]) -> int:
    """The process that wrote the note, of the worker's family. In a namespace of its own it knows another id."""
    for pid in family(worker.pid):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("NSpid:") and int(line.split()[-1]) == note.pid:
                return pid
    raise Unfit(f"no process {note.pid} below worker {worker.pid}")


def installed(peer: Peer, folder: Path) -> Path:
    """The Python of the peer's own environment, which is made if need be."""
    if not peer.requires:
        return Path(sys.executable)
    home = folder / peer.name
    python = home / "bin" / "python"
    stamp = home / "requires"
    if not stamp.exists() or stamp.read_text().split() != list(peer.requires):
        print(f"installing {peer.name} into {home}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
        pip = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        if subprocess.run([*pip, *peer.requires], check=False).returncode:
            raise Unfit(f"{peer.name}: pip could not install {' '.join(peer.requires)}; its words are above")
        stamp.write_text("\n".join(peer.requires))
    return python
