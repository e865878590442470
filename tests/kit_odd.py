"""Job kinds that nest, punch holes, race and speak where nobody expects it."""

from __future__ import annotations

import mmap
import os
import signal
import threading
from pathlib import Path
from typing import Any

from planrun.jobs import JobContext, job


@job("line")
def line(j: JobContext) -> None:
    """Find the socket to the worker and write on it; then wait to be believed. Params: text."""
    sockets = [int(fd.name) for fd in Path("/proc/self/fd").iterdir() if os.path.realpath(fd).count("socket:")]
    os.write(sockets[0], f"{j.params['text']}\n".encode())
    threading.Event().wait(1.5)
    os._exit(0)


@job("deep", resumable="deep-1")
def deep(j: JobContext) -> int:
    """Nest folders deeper than anything recurses, for as long as it takes to be measured. Params: depth."""
    (j.scratch / "checkpoint").mkdir()
    os.chdir("checkpoint")
    for _ in range(j.params["depth"]):
        os.mkdir("d")  # noqa: PTH102 - the whole path is too long
        os.chdir("d")
    os.chdir(j.scratch)
    j.progress.checkpoint()
    threading.Event().wait(1.5)
    return 1


@job("holes", output_bytes_max="1MiB")
def holes(j: JobContext) -> Path:
    """A large file that occupies nothing."""
    out = j.scratch / "out"
    with out.open("wb") as file:
        file.truncate(200 * 1024 * 1024)
    return out


@job("names", resumable="names-1")
def names(j: JobContext) -> Path:
    """Names that are no text, of an output and in a checkpoint."""
    folder = j.scratch / "checkpoint"
    folder.mkdir()
    (folder / os.fsdecode(b"\xff")).touch()
    j.progress.checkpoint()
    out = j.scratch / os.fsdecode(b"out.\xff\xfe")
    out.write_text("kept")
    return out


@job("at-once", resumable="at-once-1")
def at_once(j: JobContext) -> int:
    """Checkpoints from several threads, of very different sizes."""
    folder = j.scratch / "checkpoint"
    folder.mkdir()
    taken = []

    def save(n: int) -> None:
        for _ in range(6):
            (folder / f"part-{n}").write_bytes(os.urandom(1 + 400_000 * n))
            j.progress.checkpoint()
            taken.append(n)

    threads = [threading.Thread(target=save, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(taken)


@job("mapped", resumable="mapped-1")
def mapped(j: JobContext) -> dict[str, Any]:
    """Write the checkpoint through a memory map, then die."""
    if j.checkpoint is not None:
        return {"found": (j.checkpoint / "state").read_bytes()[:1].decode()}
    folder = j.scratch / "checkpoint"
    folder.mkdir()
    (folder / "state").write_bytes(b"-" * mmap.PAGESIZE)
    with (folder / "state").open("r+b") as file, mmap.mmap(file.fileno(), 0) as pages:
        for letter in b"ABC":
            pages[0] = letter
            j.progress.checkpoint()
        os.kill(os.getpid(), signal.SIGKILL)
    return {}


@job("copy")
def copy(j: JobContext) -> dict[str, Path]:
    """Hand the input on."""
    out = j.scratch / "out"
    out.write_bytes(j.inputs["file"].read_bytes())
    return {"out": out}
