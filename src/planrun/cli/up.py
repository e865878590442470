"""`planrun up`: a worker that comes back, and the HTTP API beside it."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from planrun.cli.asking import TOKENS, Flag, Modules, Url, with_client, with_keyring
from planrun.cli.exits import Exit
from planrun.cli.listening import LISTEN, ListenFlags, without_listening
from planrun.cli.saying import say
from planrun.cli.worker import WorkerFlags
from planrun.client import AsyncClient
from planrun.config import file_of, secret_from, url_from
from planrun.core.errors import Invalid
from planrun.wiring import open_store

if TYPE_CHECKING:
    from planrun.web.server import HttpServer

NO_HTTP_FLAG = "--no-http"
PAUSE_S_MAX = 30.0
STEADY_S = 60.0  # a worker that has lived so long has started well: the next pause is short again
FINAL = {Exit.FINISHED, Exit.USAGE}  # starting again would change nothing


def up(
    *modules: Modules,
    flags: WorkerFlags = WorkerFlags(),  # noqa: B008
    listening: ListenFlags = ListenFlags(),  # noqa: B008
    no_http: Annotated[Flag, Parameter(name=NO_HTTP_FLAG)] = False,
    url: Url = None,
) -> int:
    """Run a worker, start it again when it breaks, and serve the HTTP API. Creates the ledger if there is none.

    SIGTERM and Ctrl-C end the API at once and go to the worker, which hands its jobs back; then this ends too.

    For example:

      planrun up media.jobs --slots 2
      planrun up media.jobs --listen 127.0.0.1:9000

    Args:
        no_http: Serve no HTTP API.
    """
    flags.options(modules)  # what cannot be right is said here, not by a child that is started again and again
    place = file_of(url_from(url))
    with_client(url, _touch, may_create=True)
    store = open_store(url_from(url), flags.store, settle=True)  # before the API: it is to find it
    api = None if no_http else _open_api(url_from(url), listening)
    _say(f"ledger {place.ledger}, results in {store}, logs {place.logs}, scratch {flags.scratch or place.scratch}")
    keeper = Keeper([sys.executable, "-m", "planrun.cli", "worker", *_of_worker(TOKENS.get()[1:])])
    if api is None:
        return keeper.run()
    api.start()
    try:
        return keeper.run(on_stop=api.tell)
    finally:
        api.stop()


def _open_api(url: str, flags: ListenFlags) -> HttpServer | None:
    """The HTTP API, listening but not yet serving; None where its packages are missing and nobody asked for it.

    Raises:
        Invalid: It cannot listen there, or its packages are missing and somebody asked for it.
    """
    try:
        # Not everybody has it, and the other commands must not load it.
        from planrun.web.server import HttpServer, address_of, open_socket  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn"):
            raise
        missing = (
            f"{error.name} is not installed; for the HTTP API: pip install 'planrun[web]' (in a checkout '.[web]')"
        )
        if flags.listen is not None:
            raise Invalid(missing) from None
        _say(missing)
        return None
    token = secret_from()
    is_guarded = bool(token) or bool(with_keyring(url, lambda keyring: keyring.access_tokens()))
    tls = flags.tls
    is_secure = tls is not None or flags.insecure_http
    listening = open_socket(flags.listen or LISTEN, is_guarded=is_guarded, is_secure=is_secure)
    _say(f"HTTP API at {address_of(listening, tls)}{', with a token' if is_guarded else ''}")
    return HttpServer(url, listening, token=token, tls=tls)


def _of_worker(tokens: Sequence[str]) -> list[str]:
    """The command line without what `planrun worker` does not know."""
    kept = without_listening(tokens)
    own = kept.index("--") if "--" in kept else len(kept)
    return [*(token for token in kept[:own] if token.partition("=")[0] != NO_HTTP_FLAG), *kept[own:]]


class Keeper:
    """Keeps one command running until it ends for good or a signal says so."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._stopping = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None
        self._on_stop: Callable[[], None] = lambda: None

    def run(self, *, on_stop: Callable[[], None] = lambda: None) -> int:
        """Run the command to its final end.

        Args:
            on_stop: Called in the signal handler, before the command is told.

        Returns:
            Its exit code, 128 + n for a signal n.
        """
        self._on_stop = on_stop
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        pause_s = 1.0
        while True:
            started = time.monotonic()
            # A group of its own: Ctrl-C on the terminal reaches it once, through this process.
            self._child = subprocess.Popen(self._command, process_group=0)
            if self._stopping.is_set():
                self._child.terminate()
            code = self._child.wait()
            if code in FINAL or self._stopping.is_set():
                return code if code >= 0 else 128 - code
            if time.monotonic() - started >= STEADY_S:
                pause_s = 1.0
            how = f"exited with {code}" if code >= 0 else f"was killed by signal {-code}"
            _say(f"the worker {how}; it starts again in {pause_s:g} s")
            if self._stopping.wait(pause_s):
                return Exit.FINISHED
            pause_s = min(pause_s * 2, PAUSE_S_MAX)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping.set()
        self._on_stop()
        if self._child is not None and self._child.poll() is None:
            self._child.terminate()


def _say(text: str) -> None:
    """One line for whoever watches."""
    say(f"planrun up: {text}")


async def _touch(client: AsyncClient) -> None:
    await client.counts()
