"""Private servers for the peers that need one: on free ports, with folders of their own, ended with the run.

PostgreSQL keeps its defaults (fsync, synchronous_commit), Redis has an append-only file that is flushed once a second,
RabbitMQ the durable queues that its client asks for.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

from bench.contender import Unfit

BOOT_S = 60
PLACES = ("/usr/lib/postgresql/*/bin", "/usr/lib/rabbitmq/bin")  # where Debian keeps what is not on the PATH
HOST = "127.0.0.1"
IMPATIENT = "rabbitmq-impatient"  # its consumer_timeout is 20 s instead of half an hour


def program(name: str, package: str) -> str:
    """Raises Unfit where it is missing."""
    for place in PLACES:
        for found in sorted(Path("/").glob(f"{place[1:]}/{name}"), reverse=True):
            return str(found)
    if path := shutil.which(name):
        return path
    raise Unfit(f"{name} is missing; on Debian or Ubuntu: apt-get install {package}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
    return port


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


@contextmanager
def running(
    command: list[str],
    folder: Path,
    *,
    ready: Callable[[], bool],
    stop: signal.Signals = signal.SIGTERM,
    user: str | None = None,
    environment: dict[str, str] | None = None,
) -> Iterator[None]:
    """A server that runs as long as this context."""
    with (folder / "log").open("ab") as log:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, user=user, env=environment)
    try:
        deadline = time.monotonic() + BOOT_S
        while not ready():
            if server.poll() is not None or time.monotonic() > deadline:
                raise Unfit(f"{command[0]} does not start: {(folder / 'log').read_text()[-800:]}")
            time.sleep(0.1)
        yield
    finally:
        server.send_signal(stop)
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


@contextmanager
def postgresql(folder: Path) -> Iterator[str]:
    initdb, postgres, isready = (program(name, "postgresql") for name in ("initdb", "postgres", "pg_isready"))
    port, data = free_port(), folder / "data"
    user = None
    if os.getuid() == 0:  # it refuses to run as root
        user = "postgres"
        shutil.chown(folder, user)
    made = subprocess.run(
        [initdb, "-D", str(data), "-A", "trust", "-U", "postgres"],
        capture_output=True,
        text=True,
        check=False,
        user=user,
    )
    if made.returncode:
        raise Unfit(f"initdb: {made.stderr.strip()[-800:]}")
    options = {"listen_addresses": HOST, "unix_socket_directories": str(folder), "max_connections": "100"}
    command = [postgres, "-D", str(data), "-p", str(port)]
    for name, value in options.items():
        command += ["-c", f"{name}={value}"]

    def ready() -> bool:
        return subprocess.run([isready, "-q", "-h", HOST, "-p", str(port)], check=False).returncode == 0

    with running(command, folder, ready=ready, stop=signal.SIGINT, user=user):
        yield f"postgresql://postgres@{HOST}:{port}"


@contextmanager
def redis(folder: Path) -> Iterator[str]:
    port = free_port()
    options = ["--bind", HOST, "--port", str(port), "--dir", str(folder), "--save", ""]
    command = [program("redis-server", "redis-server"), *options, "--appendonly", "yes", "--appendfsync", "everysec"]
    with running(command, folder, ready=lambda: answers(port)):
        yield f"redis://{HOST}:{port}"


@contextmanager
def rabbitmq(folder: Path, *, consumer_timeout_ms: int = 1_800_000, tick_ms: int = 60_000) -> Iterator[str]:
    """What is not acknowledged in time is delivered again: looked at each `tick_ms`. The defaults are its own."""
    server, epmd = program("rabbitmq-server", "rabbitmq-server"), program("epmd", "erlang-base")
    port, names_port, distribution_port = free_port(), free_port(), free_port()
    settings = f"listeners.tcp.1 = {HOST}:{port}\nconsumer_timeout = {consumer_timeout_ms}\n"
    (folder / "rabbitmq.conf").write_text(settings)
    (folder / "advanced.config").write_text(f"[{{rabbit, [{{channel_tick_interval, {tick_ms}}}]}}].\n")
    (folder / "enabled_plugins").write_text("[].\n")
    environment = {
        **os.environ,
        "HOME": str(folder),
        "ERL_EPMD_PORT": str(names_port),
        "ERL_EPMD_ADDRESS": HOST,
        "RABBITMQ_NODENAME": f"bench{port}@localhost",
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_ADVANCED_CONFIG_FILE": str(folder / "advanced.config"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
        "RABBITMQ_MNESIA_BASE": str(folder / "data"),
        "RABBITMQ_LOG_BASE": str(folder),
        "RABBITMQ_PID_FILE": str(folder / "pid"),
        "RABBITMQ_DIST_PORT": str(distribution_port),
    }
    # Erlang's register of names would else be started as a daemon, and stay.
    names = running(
        [epmd, "-port", str(names_port)], folder, ready=lambda: answers(names_port), environment=environment
    )
    with names, running([server], folder, ready=lambda: answers(port), environment=environment):
        yield f"amqp://guest:guest@{HOST}:{port}//"


SERVERS: dict[str, Callable[[Path], AbstractContextManager[str]]] = {
    "postgresql": postgresql,
    "redis": redis,
    "rabbitmq": rabbitmq,
    IMPATIENT: partial(rabbitmq, consumer_timeout_ms=20_000, tick_ms=1_000),
}


@contextmanager
def started(name: str, folder: Path) -> Iterator[str]:
    """A server by its name in `peers.toml`; its address."""
    folder.mkdir(parents=True)
    with SERVERS[name](folder) as address:
        yield address
