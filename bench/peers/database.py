"""An empty PostgreSQL database for one peer."""

from __future__ import annotations

import subprocess

from bench.peers.note import Told


def address(told: Told, name: str) -> str:
    return f"{told.server['postgresql']}/{name}"


def make_anew(told: Told, name: str) -> None:
    for statement in (f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)', f'CREATE DATABASE "{name}"'):
        subprocess.run(["psql", "-q", f"{told.server['postgresql']}/postgres", "-c", statement], check=True)
