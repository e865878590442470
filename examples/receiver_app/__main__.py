"""`python -m examples.receiver_app`: an app that is told how jobs ended, and books each answer once."""

from __future__ import annotations

import argparse
import logging
import os
import socket
from pathlib import Path

import uvicorn

from examples.receiver_app.books import Books
from examples.receiver_app.receiving import build_app


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.receiver_app", description=__doc__)
    parser.add_argument("--database", type=Path, default=Path("bookings.db"), help="the app's own (%(default)s)")
    parser.add_argument("--port", type=int, default=8001, help="%(default)s; 0: any that is free")
    parser.add_argument("--amqp", default="amqp://guest:guest@127.0.0.1/", help="the broker, for --queue (%(default)s)")
    parser.add_argument("--queue", default="", help="take answers out of this queue, too")
    told = parser.parse_args()
    secret = os.environ.get("PLANRUN_WEBHOOK_SECRET", "")
    if not secret:
        parser.exit(2, "set PLANRUN_WEBHOOK_SECRET to the secret that planrun signs with; see README.md\n")
    logging.basicConfig(format="%(message)s")
    app = build_app(Books(told.database), secret=secret, amqp=told.amqp, queue=told.queue)
    listening = socket.create_server(("127.0.0.1", told.port))
    print(f"receiver app: http://127.0.0.1:{listening.getsockname()[1]}/", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listening])


if __name__ == "__main__":
    main()
