"""Stands outside: reads what the jobs note, looks at the job's file and at its attempts, and keeps it all in order."""

from __future__ import annotations

import fcntl
import threading
import time
from contextlib import suppress
from pathlib import Path

from bench.contender import Contender, Note, Unfit
from bench.peers.note import attempt_file, attempt_in, result_file
from bench.torture.history import GONE, SEEN, running

EVERY_S = 0.05


class Observer:
    """Of one job. Used as a context: it looks on while the context is open."""

    def __init__(self, contender: Contender, number: int) -> None:
        self._contender = contender
        self._number = number
        self._file = result_file(contender.folder, number)
        self._own: list[Note] = []
        self._shown: float | None = None
        self._looked_s = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Observer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def history(self) -> list[Note]:
        own = list(self._own)
        return sorted(
            [note for note in self._contender.notes() if note.number == self._number] + own, key=lambda note: note.at_s
        )

    def runner(self, start: Note) -> int:
        """The process of a living attempt: the one that holds its lock.

        Raises:
            Unfit: It does not live.
        """
        inode = attempt_file(self._contender.folder, start.attempt).stat().st_ino
        for line in Path("/proc/locks").read_text().splitlines():
            _, _, _, _, pid, device_inode, *_ = line.split()
            if device_inode.rpartition(":")[2] == str(inode):
                return int(pid)
        raise Unfit(f"{self._contender.peer.name}: the process of its job was not found")

    def _lives(self, attempt: float) -> bool:
        with attempt_file(self._contender.folder, attempt).open("rb") as held:
            try:
                fcntl.flock(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S):
            self.tick(time.monotonic())

    def tick(self, now_s: float) -> None:
        """An attempt is gone since it was last seen to live: another that starts meanwhile does not run beside it."""
        self._look_at_file(now_s)
        for attempt in running(self.history()):
            if not self._lives(attempt):
                self._note(GONE, max(self._looked_s, attempt), attempt)
        self._looked_s = now_s

    def _look_at_file(self, now_s: float) -> None:
        with suppress(FileNotFoundError):
            attempt = attempt_in(self._file.read_text())
            if attempt != self._shown:
                self._shown = attempt
                self._note(SEEN, now_s, attempt)

    def _note(self, word: str, now_s: float, attempt: float) -> None:
        self._own.append(Note(word, self._number, now_s, 0, attempt))
