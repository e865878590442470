"""A private PostgreSQL: its own cluster in a folder of its own, on a free port."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg

from deploy.local.s3 import free_port

NEEDS = "pg_ctlcluster"  # Debian's; its programs of the server itself are on nobody's path
DEBIAN = Path("/usr/lib/postgresql")
UP_WITHIN_S = 30.0


class Postgres:
    """One cluster. After `stop` or `kill` it may be started again: same port, same data."""

    def __init__(self) -> None:
        # PostgreSQL refuses to run as root, and its user cannot look into root's folders.
        self._user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
        self._folder = Path(tempfile.mkdtemp(prefix="planrun-postgres-"))
        if os.geteuid() == 0:
            shutil.chown(self._folder, self._user)
        self._programs = max(DEBIAN.glob("*/bin"), key=lambda folder: float(folder.parent.name))
        self._data = self._folder / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()

    @property
    def dsn(self) -> str:
        return f"host=127.0.0.1 port={self.port} user={self._user} dbname=postgres"

    def start(self) -> None:
        """Until it answers."""
        if not self._data.exists():
            self._run("initdb", "-D", str(self._data), "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync").wait()
        deadline = time.monotonic() + UP_WITHIN_S
        while not self._is_up():
            if self._process is None or self._process.poll() is not None:  # the killed one's memory may still be held
                self._process = self._run(
                    *("postgres", "-D", str(self._data), "-p", str(self.port), "-k", str(self._folder)),
                    *("-c", "listen_addresses=127.0.0.1", "-c", "shared_buffers=16MB"),
                )
            if time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"no PostgreSQL: {(self._folder / 'log').read_text()[-2000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Those who are connected are cut off."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            if how is signal.SIGKILL:
                os.killpg(process.pid, how)
            else:
                process.send_signal(how)
            process.wait(10)

    def _run(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(
                [self._programs / program, *arguments],
                user=self._user if os.geteuid() == 0 else None,
                cwd=self._folder,
                stdout=log,
                stderr=log,
                process_group=0,
            )

    def _is_up(self) -> bool:
        try:
            psycopg.connect(self.dsn, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True
