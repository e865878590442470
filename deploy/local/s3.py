"""Two independent S3 servers: ministack and SeaweedFS, each with one bucket that is there from the start."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from pathlib import Path

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store as Bucket

from deploy.local.leash import Leash

BUCKET = "results"
KEY_ID, SECRET = "planrun-test-key", "planrun-test-secret"
UP_WITHIN_S = 60.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class S3Server(ABC):
    """One server process. After `stop` or `kill` it may be started again: same port, same objects."""

    def __init__(self, folder: Path, *, host: str = "127.0.0.1") -> None:
        """
        Args:
            host: Where it listens.
        """
        self.folder = folder
        self.host = host
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._leash: Leash | None = None
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def endpoint(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """What a planrun that uses it has in its environment."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": KEY_ID,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
        }

    def start(self) -> None:
        """Until it answers."""
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command(),
                env=os.environ | self._environment(),
                cwd=self.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._leash = Leash(self._process)
        self._wait_up()

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def freeze(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None or self._leash is None:
            return
        self._leash.drop()
        process.send_signal(how)
        process.send_signal(signal.SIGCONT)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _wait_up(self) -> None:
        deadline = time.monotonic() + UP_WITHIN_S
        while not self._is_up():
            if time.monotonic() > deadline or (self._process is not None and self._process.poll() is not None):
                self.kill()
                raise RuntimeError(f"no S3 server: {(self.folder / 'server.log').read_text()[-2000:]}")
            time.sleep(0.05)

    def _answers(self, method: str, path: str) -> int:
        """The status of one request, 0 for no answer."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=2)
        try:
            connection.request(method, path)
            return connection.getresponse().status
        except OSError:
            return 0
        finally:
            connection.close()

    @abstractmethod
    def _command(self) -> list[str]: ...

    @abstractmethod
    def _environment(self) -> dict[str, str]: ...

    @abstractmethod
    def _is_up(self) -> bool: ...


class Ministack(S3Server):
    """It believes every caller, whatever the credentials; links it checks."""

    def _command(self) -> list[str]:
        return [sys.executable, "-m", "ministack"]

    def _environment(self) -> dict[str, str]:
        return {
            "AWS_ACCESS_KEY_ID": KEY_ID,  # of links that are signed: there it does look
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "GATEWAY_PORT": str(self.port),
            "BIND_HOST": self.host,
            "S3_PERSIST": "1",
            "S3_DATA_DIR": str(self.folder / "data"),
        }

    def _is_up(self) -> bool:
        return self._answers("PUT", f"/{BUCKET}") in (200, 409)


class Seaweed(S3Server):
    """It checks signatures."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._ports = {name: free_port() for name in ("master", "volume", "filer")}

    def _command(self) -> list[str]:
        ports = [f"-{name}.port={port}" for name, port in {**self._ports, "s3": self.port}.items()]
        return [
            str(Path(sys.executable).with_name("weed")),
            "mini",
            f"-dir={self.folder}",
            f"-ip={self.host}",
            f"-ip.bind={self.host}",
            *ports,
            "-webdav=false",
            "-admin.ui=false",
            "-s3.port.iceberg=0",
            f"-bucket={BUCKET}",
        ]

    def _environment(self) -> dict[str, str]:
        return {"AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET}

    def _is_up(self) -> bool:
        """It answers before it has made the bucket, and says so only to who signs."""
        if self._answers("GET", f"/{BUCKET}") != 403:
            return False
        bucket = Bucket(
            BUCKET,
            endpoint=self.endpoint,
            access_key_id=KEY_ID,
            secret_access_key=SECRET,
            region="us-east-1",
            client_options={"allow_http": True},
        )
        try:
            obstore.list_with_delimiter(bucket)
        except (BaseError, FileNotFoundError):
            return False
        return True
