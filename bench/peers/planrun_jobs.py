"""The jobs of the measurements, as kinds of planrun."""

from __future__ import annotations

from pathlib import Path

from bench.peers import note
from planrun.jobs import JobContext, job


@job("noop", warm=True)
def noop(j: JobContext) -> None:
    note.noop(j.params["number"])


@job("noop-fresh")
def noop_fresh(j: JobContext) -> None:
    note.noop(j.params["number"])


@job("long")
def long(j: JobContext) -> dict[str, Path]:
    """Its result is what it returns, as always; the file that the others write is written beside it."""
    result = j.scratch / "result.json"
    result.write_text(note.long(j.params["number"], j.params["seconds"]))
    return {"result": result}
