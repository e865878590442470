"""A private RabbitMQ: its own node in a folder of its own, on free ports, with an epmd of its own.

Confirmed messages survive `kill`, with one exception, which is the broker's: a quorum queue that was declared within
the last seconds comes back without its messages. Wait OLD_ENOUGH_S before you kill.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from deploy.local.leash import Leash

NEEDS = "rabbitmq-server"
UP_WITHIN_S = 60.0
OLD_ENOUGH_S = 5.0
BAD_HEADER = b"AMQP\x00\x00\x00\x00"  # whoever speaks AMQP answers with the right one
CONSUMER_TIMEOUT_MS = 60_000


class RabbitMQ:
    """One node. After `stop` or `kill` it may be started again: same ports, same data unless they were wiped."""

    def __init__(self, *, consumer_timeout_ms: int = CONSUMER_TIMEOUT_MS, host: str = "127.0.0.1") -> None:
        """
        Args:
            consumer_timeout_ms: How long a message may be unacknowledged; looked at every second.
            host: Where it listens.
        """
        self._host = host
        self._folder = Path(tempfile.mkdtemp(prefix="planrun-rabbitmq-"))
        self._programs = _programs()
        self.port, self._dist_port, self._epmd_port = _free_ports(3)
        self._node = f"planrun{self.port}@localhost"
        self._process: subprocess.Popen[bytes] | None = None
        self._epmd: subprocess.Popen[bytes] | None = None
        self._leashes: dict[int, Leash] = {}
        self.environment = self._configure(consumer_timeout_ms)  # with its own programs first in PATH

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@{self._host}:{self.port}/"

    @property
    def log(self) -> str:
        """What it has written down so far."""
        return "".join(path.read_text(errors="replace") for path in sorted((self._folder / "log").glob("*.log")))

    def start(self) -> None:
        """Until it answers."""
        if self._epmd is None:
            self._epmd = self._run("epmd", "-address", "127.0.0.1", "-port", str(self._epmd_port))
        if self._process is None:
            self._process = self._run(str(self._programs / "rabbitmq-server"))
        deadline = time.monotonic() + UP_WITHIN_S
        while not self._is_up():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"no RabbitMQ: {(self._folder / 'output').read_text()[-2000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        """As an operator would."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def wipe(self) -> None:
        """Kill it and forget everything that it held. It has to be started again."""
        self.kill()
        shutil.rmtree(self._folder / "mnesia")

    def control(self, *arguments: str) -> str:
        """rabbitmqctl; returns what it printed."""
        done = subprocess.run(
            [str(self._programs / "rabbitmqctl"), "-q", "-n", self._node, *arguments],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"rabbitmqctl {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout

    def queues(self, *columns: str) -> list[list[str]]:
        """A line for each queue that is open to all: its name and the columns asked for."""
        printed = self.control("list_queues", "--no-table-headers", "name", "exclusive", *columns)
        lines = [line.split("\t") for line in printed.splitlines()]
        return [[name, *rest] for name, exclusive, *rest in lines if exclusive != "true"]

    def set_consumer_timeout(self, timeout_ms: int) -> None:
        """For who consumes from now on, until it is started anew."""
        self.control("eval", f"application:set_env(rabbit, consumer_timeout, {timeout_ms}).")

    def alarm(self, on: bool) -> None:
        """Out of memory, as it believes: whoever publishes is blocked."""
        self.control("set_vm_memory_high_watermark", *(["0.0000001"] if on else ["absolute", "512MB"]))

    def remove(self) -> None:
        self.kill()
        if self._epmd is not None:
            self._leashes.pop(self._epmd.pid).drop()
            self._epmd.kill()
            self._epmd.wait(10)
        shutil.rmtree(self._folder, ignore_errors=True)

    # --- inside ---

    def _configure(self, consumer_timeout_ms: int) -> dict[str, str]:
        folder = self._folder
        (folder / "home").mkdir()
        cookie = folder / "home" / ".erlang.cookie"
        cookie.write_text("planrun")
        cookie.chmod(0o400)
        (folder / "empty").touch()
        (folder / "plugins").write_text("[].\n")
        (folder / "advanced.config").write_text("[{rabbit, [{channel_tick_interval, 1000}]}].\n")
        (folder / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = {self._host}:{self.port}\n"
            "loopback_users = none\n"
            f"consumer_timeout = {consumer_timeout_ms}\n"
            "vm_memory_high_watermark.absolute = 512MB\n"
            "disk_free_limit.absolute = 50MB\n"
        )
        return {
            "PATH": f"{self._programs}:{os.environ['PATH']}",
            "LC_ALL": "C.UTF-8",
            "HOME": str(folder / "home"),
            "ERL_EPMD_PORT": str(self._epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": self._node,
            "RABBITMQ_DIST_PORT": str(self._dist_port),
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(folder / "advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "empty"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            "RABBITMQ_GENERATED_CONFIG_DIR": str(folder / "generated"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none -kernel inet_dist_use_interface {127,0,0,1}",
        }

    def _run(self, *command: str) -> subprocess.Popen[bytes]:
        with (self._folder / "output").open("ab") as output:
            process = subprocess.Popen(
                command,
                env=self.environment,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._leashes[process.pid] = Leash(process, str(self._folder))
        return process

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        os.killpg(self._process.pid, number)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._leashes.pop(self._process.pid).drop()
            if self._process.poll() is None:
                os.killpg(self._process.pid, how)
            self._process.wait(30)
            self._process = None

    def _is_up(self) -> bool:
        try:
            with socket.create_connection((self._host, self.port), timeout=2) as connection:
                connection.sendall(BAD_HEADER)
                return connection.recv(4) == BAD_HEADER[:4]
        except OSError:
            return False


def is_installed() -> bool:
    return (_programs() / NEEDS).exists()


def _programs() -> Path:
    """Where the broker's own scripts are: those in Debian's PATH change the user and drop the environment."""
    found = sorted(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*/sbin"))
    return found[-1] if found else Path(shutil.which(NEEDS) or NEEDS).resolve().parent


def _free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()
