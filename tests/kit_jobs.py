"""Job kinds for tests: each does one thing that real jobs do, badly or well.

Every start is noted outside scratch, in the file that param `starts` names: job and attempt, pid, boottime.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from planrun.jobs import Fatal, JobContext, Permanent, Transient, job


def noted(j: JobContext) -> None:
    if "starts" in j.params:
        line = f"{j.idempotency_hint}/{j.attempt} {os.getpid()} {time.clock_gettime(time.CLOCK_BOOTTIME)}\n"
        with Path(j.params["starts"]).open("a") as file:
            file.write(line)


@job("nap", stall_s=3600)
def nap(j: JobContext) -> int:
    """Sleep with progress. Params: seconds."""
    noted(j)
    seconds = float(j.params.get("seconds", 1))
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        j.progress(1 - left / seconds, f"{left:.1f} s left")
        time.sleep(min(0.05, left))
    return 1


job("nap-watched", stall_s=1.5)(nap)


@job("spin")
def spin(j: JobContext) -> None:
    """One long native call that holds the GIL. Params: seconds."""
    noted(j)
    ctypes.PyDLL(None).usleep(int(float(j.params["seconds"]) * 1_000_000))


@job("render", output_bytes_max="64MiB")
def render(j: JobContext) -> dict[str, Path]:
    """Random bytes of this attempt's own, written over some seconds. Params: bytes, seconds."""
    noted(j)
    out = j.scratch / "out.bin"
    size, seconds, chunks = int(j.params.get("bytes", 100_000)), float(j.params.get("seconds", 1)), 10
    with out.open("wb") as file:
        for n in range(chunks):
            file.write(os.urandom(max(1, size // chunks)))
            file.flush()
            j.progress((n + 1) / chunks, "writing")
            time.sleep(seconds / chunks)
    return {"out": out}


@job("steps", resumable="steps-1")
def steps(j: JobContext) -> dict[str, Any]:
    """Count to `steps`, a `step_s` each; leaves a checkpoint after every step, or only when asked (`lazy`)."""
    noted(j)
    done = int((j.checkpoint / "done").read_text()) if j.checkpoint else 0
    began = done
    folder = j.scratch / "checkpoint"
    while done < int(j.params["steps"]):
        until = time.monotonic() + float(j.params["step_s"])
        while time.monotonic() < until and not j.stopping:
            time.sleep(0.02)
        done += 0 if j.stopping else 1
        j.progress(done / int(j.params["steps"]), f"step {done}")
        if j.stopping or not j.params.get("lazy"):
            folder.mkdir(exist_ok=True)
            (folder / "done").write_text(str(done))
            j.progress.checkpoint()
    return {"began": began, "done": done}


@job("brood", stall_s=3600)
def brood(j: JobContext) -> None:
    """Grandchildren that are hard to kill: one in its own session, one double-forked daemon. Params: marks, seconds."""
    noted(j)
    marks = Path(j.params["marks"])
    code = (
        "import os,signal,sys,time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "name=sys.argv[1]; daemon=sys.argv[2]=='daemon'\n"
        "if daemon:\n"
        "    os.fork() and os._exit(0)\n"
        "    os.setsid()\n"
        "    os.fork() and os._exit(0)\n"
        "while True:\n"
        "    open(name,'a').write(f'{time.clock_gettime(time.CLOCK_BOOTTIME)}\\n'); time.sleep(0.02)\n"
    )
    for name in ("setsid", "daemon"):
        path = marks / f"{name}-{j.attempt}-"
        subprocess.Popen([sys.executable, "-c", code, str(path), name], start_new_session=name == "setsid")
    time.sleep(float(j.params.get("seconds", 60)))


@job("die")
def die(j: JobContext) -> None:
    """Kill the own process. Params: signal name."""
    noted(j)
    print("last words", flush=True)
    os.kill(os.getpid(), signal.Signals[j.params["signal"]])
    time.sleep(10)


@job("quit")
def quit_(j: JobContext) -> None:
    """Leave with an exit code. Params: code, seconds (first)."""
    noted(j)
    print("leaving", flush=True)
    time.sleep(float(j.params.get("seconds", 0)))
    os._exit(int(j.params["code"]))


@job("leak", memory_bytes_max="150MiB")
def leak(j: JobContext) -> None:
    """Use ever more memory."""
    noted(j)
    hoard = []
    while True:
        hoard.append(bytearray(os.urandom(1024) * 4096))
        time.sleep(0.01)


@job("shout")
def shout(j: JobContext) -> None:
    """Print much, on both streams. Params: megabytes."""
    noted(j)
    line = "x" * 1023 + "\n"
    for n in range(int(j.params["megabytes"]) * 1024):
        (sys.stdout if n % 2 else sys.stderr).write(line)


@job("hurl")
def hurl(j: JobContext) -> None:
    """Raise. Params: error (class), message, seconds (first), on_attempts (how many attempts fail; all if left out)."""
    noted(j)
    time.sleep(j.params.get("seconds", 0))
    if j.attempt <= int(j.params.get("on_attempts", 1_000)):
        kinds: dict[str, type[Exception]] = {"permanent": Permanent, "transient": Transient, "fatal": Fatal}
        raise kinds.get(j.params["error"], ValueError)(j.params.get("message", "as asked"))


@job("stuck", stall_s=1.5)
def stuck(j: JobContext) -> None:
    """Alive, and nothing else."""
    noted(j)
    time.sleep(3600)


@job("late", max_runtime_s=1)
def late(j: JobContext) -> None:
    """Busy past the run-time limit."""
    noted(j)
    while True:
        j.progress(0.5, "busy")
        time.sleep(0.05)


@job("big", output_bytes_max="1MiB")
def big(j: JobContext) -> dict[str, Path]:
    """Write more than declared."""
    noted(j)
    out = j.scratch / "big"
    with out.open("wb") as file:
        for _ in range(200):
            file.write(os.urandom(1024 * 1024))
            file.flush()
            time.sleep(0.1)
    return {"out": out}


@job("keep")
def keep(j: JobContext) -> Any:
    """Return odd outputs. Params: what."""
    noted(j)
    what = j.params["what"]
    path = j.scratch / "file"
    if what == "missing":
        return {"out": path}
    if what == "empty":
        path.touch()
        return {"out": path}
    if what == "link":
        path.symlink_to("/etc/hostname")
        return {"out": path}
    if what == "outside":
        return {"out": Path("/etc/hostname")}
    if what == "folder":
        path.mkdir()
        return {"out": path}
    if what == "several":
        for name in "abc":
            (j.scratch / name).write_text(f"this is {name}")
        return {name: j.scratch / name for name in "abc"}
    if what == "nan":
        return float("nan")
    if what == "bytes":
        return {"value": [1, b"x"]}
    path.write_text("fine")
    return {"out": path, "value": 42}


@job("warmly", warm=True)
def warmly(j: JobContext) -> dict[str, int]:
    """Tell the pid. Params: fail."""
    noted(j)
    if j.params.get("fail"):
        raise Permanent("as asked")
    (j.scratch / "left over").touch()
    return {"pid": os.getpid()}


@job("needy", needs=["nonsuch-capability"])
def needy(j: JobContext) -> None:
    """Never offered on a machine without that capability."""


@job("gpu-only", needs=["gpu"])
def gpu_only(j: JobContext) -> str:
    """Needs a capability that a worker may declare."""
    noted(j)
    return "ran"
