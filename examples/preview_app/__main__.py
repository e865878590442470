"""`python -m examples.preview_app`: serve the app over one ledger."""

from __future__ import annotations

import argparse
import logging
import socket
from pathlib import Path
from types import FrameType

import uvicorn
from starlette.datastructures import State

from examples.preview_app.web import build_app
from planrun import Client, PlanrunError

STOP_S_MAX = 5  # for what is being sent


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.preview_app", description=__doc__)
    parser.add_argument(
        "--ledger", type=Path, default=Path("previews.db"), help="a file; the uploads lie beside it (%(default)s)"
    )
    parser.add_argument("--host", default="127.0.0.1", help="where to listen (%(default)s); 0.0.0.0: for everybody")
    parser.add_argument("--port", type=int, default=8000, help="%(default)s; 0: any that is free")
    parser.add_argument("--upload-mib-max", type=int, default=2048, help="larger uploads are refused (%(default)s)")
    told = parser.parse_args()
    ledger = told.ledger.absolute()
    url, uploads = f"sqlite:///{ledger}", ledger.with_name(f"{ledger.name}.uploads")
    try:
        Client(url).close()  # what is wrong with it is said here, in one line
    except PlanrunError as error:
        parser.exit(1, f"planrun: {error}\n")
    app = build_app(url, uploads, bytes_max=told.upload_mib_max * 2**20)
    try:
        listening = socket.create_server((told.host, told.port), family=_family(told.host))
    except OSError as error:
        why = str(error.strerror).partition(" (")[0]
        parser.exit(1, f"cannot listen on {told.host}, port {told.port}: {why}; name another with --port\n")
    logging.basicConfig(format="%(message)s")
    print(f"preview app: http://{told.host}:{listening.getsockname()[1]}/", flush=True)
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=STOP_S_MAX)
    Server(config, app.state).run(sockets=[listening])


class Server(uvicorn.Server):
    """A server that pages which follow a render do not keep from stopping."""

    def __init__(self, config: uvicorn.Config, state: State) -> None:
        super().__init__(config)
        self._state = state

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.started:
            self._state.previews.stop()
        super().handle_exit(sig, frame)


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


if __name__ == "__main__":
    main()
