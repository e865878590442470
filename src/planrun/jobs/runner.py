"""The main program of a job process: waits for `run` on its socket, runs the job, says how it ended.

    python -I -m planrun.jobs.runner DESCRIPTOR

A fresh process runs one job and exits; a warm one keeps its modules and waits for the next.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import queue
import signal
import sys
import threading
from io import TextIOWrapper
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

from planrun.core.life import Outcome
from planrun.jobs.answer import Answer, answer_of
from planrun.jobs.channel import Channel
from planrun.jobs.context import JobContext, Line, Stopped
from planrun.jobs.declaration import function_of
from planrun.jobs.failure import Described, describe_failure, describe_import, write_traceback
from planrun.jobs.given import Given


def main() -> NoReturn:
    """Serve the worker until it has no more work for this process."""
    channel = Channel(int(sys.argv[1]))
    # A stop signal to the whole group is the worker's to answer. A handler, unlike "ignore", is not inherited.
    signal.signal(signal.SIGTERM, lambda *_: None)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    runner = Runner(channel)
    threading.Thread(target=runner.listen, name="planrun-listen", daemon=True).start()
    channel.send("ready")
    warm = True
    while warm:
        order = runner.orders.get()
        warm = order["warm"]
        runner.run(order)
    # Hooks and left-over threads of job code could hang or crash here, after the answer was given.
    os._exit(0)


class Runner:
    """Runs one job at a time; the listening thread passes on what the worker says meanwhile."""

    def __init__(self, channel: Channel) -> None:
        self.orders: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._channel = channel
        self._line: Line | None = None
        self._early_stop = False

    def listen(self) -> None:
        """Obey the worker. Never returns: the process ends with its worker."""
        for message in self._channel.messages():
            match message["say"]:
                case "run":
                    self._early_stop = False
                    self.orders.put(message)
                case "stop":
                    self._early_stop = True  # before looking at the line, so that one of the two threads sees it
                    if self._line is not None:
                        self._line.stop()
                case "checkpoint-taken" | "checkpoint-refused" if self._line is not None:
                    self._line.answer(message["seq"], message.get("why"))

    def run(self, order: dict[str, Any]) -> None:
        """Run one job and report exactly one end."""
        scratch = Path(order["scratch"])
        line = self._line = Line(self._channel.send, scratch)
        if self._early_stop:
            line.stop()
        try:
            _settle_in(order)
            ended = _attempt(order, line, scratch)
        except BaseException as error:  # a late interrupt, or a folder that is gone
            write_traceback(error)
            ended = describe_failure(error)
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        line.close()
        self._line = None
        match ended:
            case Answer():
                self._channel.send("done", outputs=ended.outputs, value=ended.value)
            case Described():
                self._channel.send("error", outcome=ended.outcome, message=ended.message, code=ended.code)
            case Stopped():
                self._channel.send("stopped")


def _settle_in(order: dict[str, Any]) -> None:
    """Make the attempt's folders those of the process."""
    os.chdir(order["scratch"])
    os.environ["TMPDIR"] = order["tmp"]
    os.environ["HOME"] = order["home"]
    if "tempfile" in sys.modules:  # a warm process's earlier job may have asked it where to go
        sys.modules["tempfile"].tempdir = None  # type: ignore[attr-defined]
    sys.path[:0] = [folder for folder in order["path"] if folder not in sys.path]


def _attempt(order: dict[str, Any], line: Line, scratch: Path) -> Answer | Described | Stopped:
    module, kind, version = order["module"], order["kind"], order["version"]
    try:
        importlib.import_module(module)
    except BaseException as error:
        write_traceback(error)
        return describe_import(error, module)
    function = function_of(kind, version)
    if function is None:
        missing = f"module {module} declares no @job({kind!r}, version={version!r})"
        return Described(Outcome.TRANSIENT, missing, "import")
    context = line.context(
        inputs=MappingProxyType(Given("inputs", {name: Path(path) for name, path in order["inputs"].items()})),
        params=Given("params", order["params"]),
        checkpoint=Path(order["checkpoint"]) if order["checkpoint"] else None,
        attempt=order["attempt"],
        hint=order["hint"],
    )
    try:
        return answer_of(_returned(function, context), scratch=scratch, value_bytes_max=order["value_bytes_max"])
    except Stopped as stopped:
        if line.stopping:
            return stopped
        return Described(Outcome.TRANSIENT, "the job raised Stopped without being asked to stop", "stopped")
    except BaseException as error:
        write_traceback(error)
        return describe_failure(error)


def _returned(function: Any, context: JobContext) -> Any:
    try:
        return function(context)
    except SystemExit as leaving:
        if leaving.code in (None, 0):  # a command's main function that says it succeeded
            return None
        raise


if __name__ == "__main__":
    main()
