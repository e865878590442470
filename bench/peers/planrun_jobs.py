"""The jobs of the measurements, as kinds of planrun."""

from __future__ import annotations

from bench.peers import note
from planrun.jobs import JobContext, job


@job("noop", warm=True)
def noop(j: JobContext) -> None:
    note.noop(j.params["number"])


@job("noop-fresh")
def noop_fresh(j: JobContext) -> None:
    note.noop(j.params["number"])


@job("sleep")
def sleep(j: JobContext) -> None:
    note.sleep(j.params["seconds"])
