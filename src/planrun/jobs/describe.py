"""Prints what job modules declare, as JSON, for a worker that never imports them itself.

    python -I -m planrun.jobs.describe [--path FOLDER]… MODULE…

Exit 2 with one clear line if a module cannot be imported or declares something wrong.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from dataclasses import asdict
from typing import NoReturn

from planrun.core.errors import Invalid
from planrun.jobs.declaration import declared_kinds, declared_probes
from planrun.jobs.failure import describe_import, one_line


def main() -> NoReturn:
    """Import, ask the probes, print."""
    parser = argparse.ArgumentParser(prog="planrun.jobs.describe")
    parser.add_argument("--path", action="append", default=[])
    parser.add_argument("module", nargs="+")
    asked = parser.parse_args()
    answer = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what modules print must not mix with the answer
    sys.path[:0] = asked.path
    for module in asked.module:
        try:
            importlib.import_module(module)
        except BaseException as error:
            _refuse(_why(error, module))
    kinds = [asdict(kind) for kind in declared_kinds()]
    if not kinds:
        _refuse(f"no @job function in {', '.join(asked.module)}; declare one with planrun.jobs.job")
    found = {name: _ask(name, probe) for name, probe in declared_probes().items()}
    with os.fdopen(answer, "w", encoding="utf-8") as out:
        json.dump({"kinds": kinds, "capabilities": found}, out)
    sys.stderr.flush()
    os._exit(0)


def _ask(name: str, probe: object) -> bool | str:
    """A probe that raises says no, with the reason on standard error."""
    try:
        said = probe()  # type: ignore[operator]
    except BaseException as error:
        print(f"the probe of capability {name} failed: {type(error).__name__}: {one_line(error)}", file=sys.stderr)
        return False
    return said if isinstance(said, str) and said else bool(said)


def _why(error: BaseException, module: str) -> str:
    if isinstance(error, Invalid):
        return one_line(error)
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing and (module == missing or module.startswith(f"{missing}.")):
        if module.endswith(".py"):
            return f"no module named {module}; name it as in an import statement: {module.removesuffix('.py')}"
        return f"no module named {module} on the import path; install it, or name its folder with --import-path"
    return describe_import(error, module).message


def _refuse(why: str) -> NoReturn:
    print(why, file=sys.stderr, flush=True)
    os._exit(2)


if __name__ == "__main__":
    main()
