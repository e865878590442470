"""What was submitted with a job: its inputs or its params, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from planrun.core.errors import Permanent

V = TypeVar("V")


class NotGiven(Permanent, KeyError):
    """The job needs what was not submitted with it. A KeyError too, for whoever has a default to go on with."""

    __str__ = Exception.__str__


class Given(dict[str, V]):
    """A dict that says what is missing: the same submit fails the same way, so the job fails once."""

    def __init__(self, group: str, known: Mapping[str, V]) -> None:
        """Args:
        group: `inputs` or `params`.
        """
        super().__init__(known)
        self._group = group

    def __missing__(self, name: Any) -> V:
        has = ", ".join(sorted(self)) or "none"
        raise NotGiven(
            f"this kind needs {self._group}.{name}, and was given: {has}; submit it again with it", code="missing"
        )
