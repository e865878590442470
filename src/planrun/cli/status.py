"""Where a job is, on stderr, while somebody waits for it: a bar on a terminal, lines in a log."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from planrun.cli.printing import clean
from planrun.cli.saying import say
from planrun.cli.words import left_in_words, state_in_words
from planrun.client.waiting import PROGRESS_EVERY_S
from planrun.clock import Instant, SystemClock
from planrun.core.life import State
from planrun.core.messages import JobRow

LINE_STEP = 0.1  # so much more must be done for another line in a log
BAR_COLUMNS = 24


class Lines:
    """A line per change, and one for each tenth of the work."""

    every_s = 30.0  # how often the progress is looked at: a hundred scripts that wait must not be felt

    def __init__(self) -> None:
        self._clock = SystemClock.open_system()
        self._step: object = None
        self._shown = 0.0

    def show(self, row: JobRow) -> None:
        """Say where the job is, if that is news."""
        step = (row.state, row.attempt, row.worker)
        done = row.fraction or 0.0
        if step == self._step and 0 <= done - self._shown < LINE_STEP:
            return
        self._step, self._shown = step, done
        say(one_line(state_in_words(row, self._clock.now())))


class Bar(Lines):
    """One line that is rewritten."""

    every_s = PROGRESS_EVERY_S

    def __init__(self, live: Live) -> None:
        super().__init__()
        self._live = live

    def show(self, row: JobRow) -> None:
        self._live.update(bar_of(row, self._clock.now()), refresh=True)


@contextmanager
def showing() -> Iterator[Lines]:
    """What suits this stderr; a bar is gone afterwards."""
    if not sys.stderr.isatty():
        yield Lines()
        return
    with Live(console=Console(stderr=True), transient=True, auto_refresh=False) as live:
        yield Bar(live)


def bar_of(row: JobRow, now: Instant) -> RenderableType:
    """Where a job is, with a bar if it says how much is done."""
    if row.state is not State.RUNNING or row.fraction is None:
        return _text(state_in_words(row, now))
    said = f": {row.message}" if row.message else ""
    line = Table.grid(padding=(0, 1))
    line.add_row(
        _text(f"running on {row.worker}"),
        ProgressBar(total=1.0, completed=row.fraction, width=BAR_COLUMNS),
        _text(f"{row.fraction:.0%}{left_in_words(row, now)}{said}"),
    )
    return line


def one_line(text: str) -> str:
    return clean(text).replace("\n", " ")[:100]


def _text(text: str) -> Text:
    return Text(one_line(text), no_wrap=True, overflow="ellipsis")
