"""What the code under test says of its own faults: it goes on after them, and a history must not."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec

from planrun.core.errors import PlanrunError
from planrun.sim.loop import SimLoop, in_words

if TYPE_CHECKING:
    from planrun.sim.checks import Checks

P = ParamSpec("P")


class Overhearing(logging.Handler):
    """Makes a mishap of each exception that is logged, unless it is one that a broken world accounts for."""

    def __init__(self, loop: SimLoop) -> None:
        super().__init__(logging.WARNING)
        self._loop = loop
        self._logger = logging.getLogger("planrun")

    def begin(self) -> None:
        """Nothing is printed from now on."""
        self._propagated, self._logger.propagate = self._logger.propagate, False
        self._level = self._logger.level
        self._logger.setLevel(logging.WARNING)
        self._logger.addHandler(self)
        logging.disable(logging.INFO)

    def end(self) -> None:
        """As it was before."""
        logging.disable(logging.NOTSET)
        self._logger.removeHandler(self)
        self._logger.setLevel(self._level)
        self._logger.propagate = self._propagated

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, PlanrunError) and not self._loop.current.is_dead:
            self._loop.mishaps.append(f"{self._loop.current.name}: {record.getMessage()}: {in_words(error)}")


def heard(look: Callable[Concatenate[Checks, P], None]) -> Callable[Concatenate[Checks, P], None]:
    """Makes a mishap of what a look of the oracle raises: the code that brought it there may go on after an error."""

    @wraps(look)
    def looking(checks: Checks, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            look(checks, *args, **kwargs)
        except Exception as error:
            checks.world.loop.mishaps.append(f"the oracle: {in_words(error)}")

    return looking
