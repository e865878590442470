"""A broker and an S3 server to try a fleet with, until Ctrl-C: `python -m deploy.local`.

Writes down in this folder what an orchestrator has to have in its environment. What lies in them is gone afterwards.
"""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
import tempfile
import threading
from pathlib import Path

from deploy.local.rabbitmq import NEEDS, RabbitMQ, is_installed
from deploy.local.s3 import BUCKET, Seaweed

FILE = Path("services.env")


def main() -> int:
    argparse.ArgumentParser(prog="python -m deploy.local", description=__doc__).parse_args()
    if not is_installed():
        print(f"no RabbitMQ on this machine; on Debian or Ubuntu: apt-get install {NEEDS}", file=sys.stderr)
        return 5
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with tempfile.TemporaryDirectory(prefix="planrun-s3-") as folder:
        broker, s3 = RabbitMQ(), Seaweed(Path(folder))
        try:
            broker.start()
            s3.start()
            told = {"PLANRUN_BROKER": broker.url, "PLANRUN_STORE": f"s3://{BUCKET}/planrun", **s3.environment}
            FILE.write_text("".join(f"export {name}={shlex.quote(value)}\n" for name, value in told.items()))
            print(f"RabbitMQ and S3 run until Ctrl-C. In another terminal: . ./{FILE}", flush=True)
            stop.wait()
        finally:
            FILE.unlink(missing_ok=True)
            s3.stop()
            broker.remove()
    return 0


if __name__ == "__main__":
    sys.exit(main())
