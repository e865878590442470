"""Jobs that misbehave in every way that matters, for the tests of the job process."""

from __future__ import annotations

import ctypes
import datetime
import errno
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import FunctionType
from typing import Any

from planrun.jobs import Fatal, JobContext, Permanent, Stopped, Transient, capability, job


@capability("lab")
def has_lab() -> str:
    return "1.0"


@capability("unicorn")
def has_unicorn() -> bool:
    raise RuntimeError("no such animal")


@job("echo", needs=["lab"])
def echo(j: JobContext) -> Any:
    j.progress(0.5, "half way")
    j.log("a line")
    inputs = {name: path.read_text() for name, path in j.inputs.items()}
    return {"params": j.params, "inputs": inputs, "hint": j.idempotency_hint, "cwd": str(Path.cwd())}


@job("echo-async")
async def echo_async(j: JobContext) -> Any:
    return j.params


@job("needs-what-is-missing")
def needs_what_is_missing(j: JobContext) -> Any:
    return getattr(j, j.params["group"])["video"]


@job("has-a-default")
def has_a_default(j: JobContext) -> Any:
    try:
        return getattr(j, j.params["group"])["video"]
    except KeyError:
        return "a default"


@job("files")
def files(j: JobContext) -> Any:
    Path("kept.txt").write_text("kept")
    (j.scratch / "folder").mkdir()
    (j.scratch / "link").symlink_to("/etc/passwd")
    match j.params["case"]:
        case "bare":
            return j.scratch / "kept.txt"
        case "relative":
            return {"out": Path("kept.txt"), "frames": 3}
        case "missing":
            return {"out": Path("nothing.txt")}
        case "outside":
            return {"out": Path("/etc/passwd")}
        case "link":
            return {"out": j.scratch / "link"}
        case "folder":
            return {"out": j.scratch / "folder"}
        case "text":
            return {"out": [str(j.scratch / "kept.txt")]}
        case "name":
            return {"../up": j.scratch / "kept.txt"}
        case _:
            return {"deep": [j.scratch / "kept.txt"]}


def _cycle() -> list[Any]:
    cycle: list[Any] = []
    cycle.append(cycle)
    return cycle


def _deep() -> list[Any]:
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    return deep


STRANGE: dict[str, Any] = {
    "bytes": lambda: {"a": [b"x"]},
    "nan": lambda: {"a": float("nan")},
    "infinity": lambda: float("inf"),
    "datetime": lambda: {"when": datetime.datetime(2026, 1, 1)},
    "set": lambda: {1, 2},
    "tuple": lambda: (1, 2),
    "key": lambda: {"a": {1: 2}},
    "surrogate": lambda: "\ud800",
    "cycle": _cycle,
    "deep": _deep,
    "huge": lambda: "x" * 300_000,
    "huge-integer": lambda: 10**5000,
}


@job("returns")
def returns(j: JobContext) -> Any:
    return 10**400 if j.params["case"] == "large-integer" else STRANGE[j.params["case"]]()


class HostileError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def __reduce__(self) -> Any:
        raise RuntimeError("no pickle")


@job("raises")
def raises(j: JobContext) -> None:
    match j.params["case"]:
        case "permanent":
            raise Permanent("bad\nfilter", code="ffmpeg-bad-filter")
        case "transient":
            raise Transient("no network")
        case "fatal":
            raise Fatal("card has locked up", code="gpu")
        case "value":
            raise ValueError("two\nlines")
        case "hostile":
            raise HostileError
        case "memory":
            raise MemoryError
        case "disk":
            raise OSError(errno.ENOSPC, "No space left on device")
        case "exit-3":
            sys.exit(3)
        case "exit-0":
            sys.exit(0)
        case "interrupt":
            raise KeyboardInterrupt
        case "stopped":
            raise Stopped


@job("dies")
def dies(j: JobContext) -> None:
    for number in range(30):
        print(f"line {number}")
    if "signal" in j.params:
        os.kill(os.getpid(), j.params["signal"])
        time.sleep(60)
    if "segfault" in j.params:
        ctypes.string_at(0)
    os._exit(j.params["exit"])


@job("forks-and-returns")
def forks_and_returns(j: JobContext) -> Any:
    """A child that forgets to exit must not answer in the job's name."""
    if os.fork() == 0:
        return {"who": "child"}
    os.wait()
    return {"who": "parent"}


@job("shout", log_bytes_max="64KiB")
def shout(j: JobContext) -> Any:
    block = b"x" * 99 + b"\n"
    for _ in range(j.params["mb"]):
        for descriptor in (1, 2):
            os.write(descriptor, block * 5000)
    os.write(1, b"the end\n")
    return None


@job("reads-stdin")
def reads_stdin(j: JobContext) -> Any:
    done = subprocess.run(["cat"], capture_output=True, check=True)
    return [sys.stdin.read(), done.stdout.decode()]


@job("daemon-holds-output")
def daemon_holds_output(j: JobContext) -> Any:
    subprocess.Popen(["setsid", "sleep", j.params["tag"]])
    print("said before the end")
    return "over"


@job("orphans")
def orphans(j: JobContext) -> Any:
    """Four processes: a child, one that ignores SIGTERM in its own session, its child, and a daemon."""
    tag = j.params["tag"]
    stubborn = f"trap '' TERM; sleep {tag} & exec sleep {tag}"
    subprocess.Popen(["sleep", tag])
    subprocess.Popen(["sh", "-c", stubborn], start_new_session=True)
    subprocess.run(["sh", "-c", f"(setsid sleep {tag} </dev/null >/dev/null 2>&1 &)"], check=True)
    j.progress(1.0, "all started")
    match j.params.get("then"):
        case "return":
            return "over"
        case "exit":
            os._exit(3)
        case "killed":
            os.kill(os.getpid(), 9)
    time.sleep(600)
    return None


@job("many-reports")
def many_reports(j: JobContext) -> Any:
    started = time.monotonic()
    for number in range(j.params["times"]):
        j.progress(number / j.params["times"], "counting")
    j.progress(1.0, "counted")
    return time.monotonic() - started


class _HostileText:
    def __str__(self) -> str:
        raise RuntimeError


@job("garbage-reports")
def garbage_reports(j: JobContext) -> Any:
    for garbage in (float("nan"), None, [], object(), "much"):
        j.progress(garbage)  # type: ignore[arg-type]
    j.progress(0.1, _HostileText())  # type: ignore[arg-type]
    j.progress(7)
    j.progress(-1)
    j.progress(0.25, "\ud800" + "x" * 10_000)
    return "unharmed"


def _reachable(root: object) -> set[type]:
    """The types of everything that attributes and items lead to, code and modules left out."""
    seen: dict[int, object] = {}
    todo = [root]
    while todo:
        thing = todo.pop()
        if id(thing) in seen or isinstance(thing, type | str | bytes | int | float | type(os)):
            continue
        seen[id(thing)] = thing
        for name in dir(thing):
            try:
                value = getattr(thing, name, None)
            except TypeError:  # some Pythons give a slot of the wrong class
                continue
            if name.startswith("__") or isinstance(value, FunctionType):
                continue
            todo.append(getattr(value, "__self__", value))
        if isinstance(thing, dict):
            todo += thing.values()
    return {type(thing) for thing in seen.values()}


@job("introspect")
def introspect(j: JobContext) -> Any:
    descriptors = {}
    for opened in Path("/proc/self/fd").iterdir():
        try:
            descriptors[opened.name] = str(opened.readlink())
        except OSError:
            continue  # the listing's own
    in_child = subprocess.run(["ls", "/proc/self/fd"], capture_output=True, text=True, check=True, close_fds=False)
    return {
        "descriptors": descriptors,
        "of_children": in_child.stdout.split(),
        "environment": dict(os.environ),
        "modules": sorted(sys.modules),
        "reachable": sorted(f"{kind.__module__}.{kind.__name__}" for kind in _reachable(j)),
        "pid": os.getpid(),
        "session": os.getsid(0),
        "oom": Path("/proc/self/oom_score_adj").read_text().strip(),
        "self": str(Path("/proc/self").readlink()),
    }


@job("checkpoints", resumable="fmt-1")
def checkpoints(j: JobContext) -> Any:
    resumed = (j.checkpoint / "state").read_text() if j.checkpoint else None
    for number in range(1000):
        folder = j.scratch / "checkpoint"
        folder.mkdir(exist_ok=True)
        (folder / "state").write_text(str(number))
        j.progress.checkpoint()
        if number >= j.params.get("times", 1000):
            break
    return resumed


@job("stops-itself")
def stops_itself(j: JobContext) -> Any:
    j.progress(0.0, "waiting")
    while not j.stopping:
        time.sleep(0.01)
    raise Stopped


@job("no-checkpoint")
def no_checkpoint(j: JobContext) -> Any:
    j.progress.checkpoint()


_runs: list[int] = []


@job("warm", warm=True)
def warm(j: JobContext) -> Any:
    _runs.append(1)
    print(f"run {len(_runs)}")
    if "tag" in j.params:
        subprocess.Popen(["setsid", "sleep", j.params["tag"]])
        threading.Thread(target=lambda: time.sleep(600), daemon=True).start()
    return {"runs": len(_runs), "pid": os.getpid(), "cwd": str(Path.cwd()), "tmp": os.environ["TMPDIR"]}


@job("busy")
def busy(j: JobContext) -> Any:
    (j.scratch / "out.bin").write_bytes(os.urandom(3_000_000))
    ballast = bytearray(60_000_000)
    until = time.monotonic() + j.params["seconds"]
    while time.monotonic() < until:
        pass
    return len(ballast)


@job("sends-nonsense")
def sends_nonsense(j: JobContext) -> Any:
    """Job code that finds the socket and floods it."""
    sockets = [number for number in range(3, 100) if Path(f"/proc/self/fd/{number}").exists()]
    line = socket.socket(fileno=os.dup(sockets[0]))
    while True:
        line.sendall(b"not json\n" * 1000)
