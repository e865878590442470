"""planrun as a fleet each worker of which has a machine of its own, a new one at each start: none sees another's lock.

So nobody can prove that a worker is dead, and the lease of a killed one runs out, as when a whole machine dies.
"""

from __future__ import annotations

from bench.peers.fleet import TOLD, connect, prepare, worker

__all__ = ["connect", "prepare", "workers"]

SETTINGS = {
    "$(mktemp -d": "its lock and scratch are in a new folder at each start; all else as `fleet`",
}


def workers(count: int) -> list[list[str]]:
    machine = f'export XDG_CACHE_HOME="$(mktemp -d -p {TOLD.folder})"; exec "$@"'
    return [["sh", "-c", machine, "machine", *worker()]] * count
