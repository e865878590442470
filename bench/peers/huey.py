"""Huey on SQLite, fsynced, with worker processes. A job is deleted when it is taken: at most once, even with retries=.

An idle consumer polls, each 0.1 s at first and ever more seldom, up to 10 s; the most frequent that it allows without
spinning (`-d 0.1 -b 1 -m 0.1`) is set here. `-g TERM` makes SIGTERM wait for the job; by default the job is lost.
"""

from __future__ import annotations

from huey import SqliteHuey

from bench.peers import note

SETTINGS = {
    "fsync=True": "a submit returns when the job is on the disk",
    '"-k", "process"': "a process for each slot",
    '"-d", "0.1", "-b", "1", "-m", "0.1"': "idle, it looks for jobs each 0.1 s, instead of up to 10 s apart",
    '"-g", "TERM"': "SIGTERM waits for the job; by default the job is lost",
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
    options = ["-k", "process", "-w", str(TOLD.slots), "-q", "-g", "TERM", *polling]
    return [[consumer, "bench.peers.huey.QUEUE", *options]] * count
