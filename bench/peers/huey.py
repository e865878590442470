"""Huey on SQLite, fsynced, with worker processes. A job is deleted when it is taken: at most once, even with retries=.

On SIGTERM it waits for the job, here as long as it has; what it then interrupts goes back into the queue, as its
documents show it. By default the job is lost.

An idle consumer polls, each 0.1 s at first and ever more seldom, up to 10 s; the most frequent that it allows without
spinning (`-d 0.1 -b 1 -m 0.1`) is set here.
"""

from __future__ import annotations

from huey import SqliteHuey
from huey.api import Task
from huey.signals import SIGNAL_INTERRUPTED

from bench.peers import note

SETTINGS = {
    "fsync=True": "a submit returns when the job is on the disk",
    '"-k", "process"': "a process for each slot",
    '"-d", "0.1", "-b", "1", "-m", "0.1"': "idle, it looks for jobs each 0.1 s, instead of up to 10 s apart",
    '"-g", "TERM"': "SIGTERM waits for the job; by default it interrupts it at once",
    '"-t", str(TOLD.grace_s - note.MARGIN_S)': "so long; then the job is interrupted. By default until it ends",
    "SIGNAL_INTERRUPTED": "an interrupted job goes back into the queue; by default it is lost",
    "retries=2": "for failures; nothing that it has starts the job of a killed worker again",
}
TOLD = note.told()
QUEUE = SqliteHuey(name=TOLD.queue, filename=str(TOLD.folder / "huey.db"), fsync=True)


@QUEUE.task()
def noop(number: int) -> None:
    note.noop(number)


@QUEUE.task(retries=2)
def long(number: int, seconds: float) -> str:
    return note.long(number, seconds)


@QUEUE.signal(SIGNAL_INTERRUPTED)
def give_back(_: str, task: Task) -> None:
    QUEUE.enqueue(task)


class Connection:
    def submit(self, number: int) -> None:
        noop(number)

    def submit_long(self, number: int, seconds: float) -> None:
        task = long.s(number, seconds)
        task.id = str(number)
        QUEUE.enqueue(task)

    def answer(self, number: int) -> str | None:
        result: str | None = QUEUE.result(str(number), preserve=True)
        return result

    def close(self) -> None:
        QUEUE.storage.close()


def prepare() -> None:
    QUEUE.storage.close()


def connect() -> Connection:
    return Connection()


def workers(count: int) -> list[list[str]]:
    polling = ["-d", "0.1", "-b", "1", "-m", "0.1"]
    consumer = str(TOLD.binaries / "huey_consumer")
    stop = ["-g", "TERM", "-t", str(TOLD.grace_s - note.MARGIN_S)]
    options = ["-k", "process", "-w", str(TOLD.slots), "-q", *stop, *polling]
    return [[consumer, "bench.peers.huey.QUEUE", *options]] * count
