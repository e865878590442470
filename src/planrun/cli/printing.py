"""Output: one strict JSON document, or short aligned tables without color unless a person looks."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from planrun.core.plain import plain

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_UNCUT = 10_000  # columns of a pipe: nothing that a script reads is cut or folded


def print_json(value: Any) -> None:
    """One JSON document, ASCII, every field present."""
    json.dump(plain(value), sys.stdout, allow_nan=False, indent=2)
    sys.stdout.write("\n")


def print_json_line(value: Any) -> None:
    """One JSON document in one line, at once: for whoever follows."""
    print(json.dumps(plain(value), allow_nan=False), flush=True)


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """An aligned table; an empty one prints its heads."""
    table = empty_table(heads)
    for row in rows:
        table.add_row(*(Text(clean(cell)) for cell in row))
    _print(table)


def empty_table(heads: Sequence[str]) -> Table:
    """A table that is still to be filled."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for index, head in enumerate(heads):
        # The first column names the row: it is never cut, so that it can be copied.
        table.add_column(head, no_wrap=index == 0, overflow="fold")
    return table


def print_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Name and value, one per line; empty values are left out."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for name, value in facts:
        if value:
            table.add_row(name, Text(clean(value)))
    _print(table)


def clean(text: str) -> str:
    """Text of a job, harmless to a terminal: control characters become visible."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def _print(table: Table) -> None:
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = _UNCUT
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        sys.stdout.write(f"{line.rstrip()}\n")
