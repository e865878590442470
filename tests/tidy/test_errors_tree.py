"""The tree of exceptions is drawn at the top of `core/errors.py`; the drawing and the classes agree."""

from __future__ import annotations

import inspect
import re

from planrun.core import errors

ENTRY = re.compile(r"^( *)[*.-] (\w+)")


def drawn() -> dict[str, str | None]:
    """Exception → its parent, by indentation."""
    parents: dict[str, str | None] = {}
    above: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        if (entry := ENTRY.match(line)) is None:
            continue
        depth, name = len(entry[1]), entry[2]
        above = [(indent, parent) for indent, parent in above if indent < depth]
        parents[name] = above[-1][1] if above else None
        above.append((depth, name))
    return parents


def defined() -> dict[str, str | None]:
    classes = {
        name: cls for name, cls in inspect.getmembers(errors, inspect.isclass) if cls.__module__ == errors.__name__
    }
    return {
        name: next((base.__name__ for base in cls.__bases__ if base.__name__ in classes), None)
        for name, cls in classes.items()
    }


def test_the_drawn_tree_is_the_tree_of_classes() -> None:
    assert drawn() == defined()


def test_every_exception_says_what_it_means() -> None:
    silent = [name for name in defined() if not (vars(errors)[name].__doc__ or "").strip()]

    assert silent == []
