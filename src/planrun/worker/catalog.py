"""What this worker can run: asked of the job modules in a process of their own, never imported here."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planrun.core.errors import Invalid
from planrun.core.kinds import Kind
from planrun.core.messages import Handler

_TIMEOUT_S = 120  # importing large libraries on a cold disk takes its time


@dataclass(frozen=True, slots=True)
class Catalog:
    """Attributes:
    kinds: Everything that the modules declare.
    handlers: The same for the ledger, with the needs that this machine lacks.
    capabilities: What this machine can do.
    unverified: Those of them for which there is only the operator's word.
    notes: What is worth telling the operator, such as why a probe failed.
    """

    kinds: tuple[Kind, ...]
    handlers: tuple[Handler, ...]
    capabilities: tuple[str, ...]
    unverified: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def lacks(self) -> tuple[str, ...]:
        """In words, what this machine lacks for which kind."""
        return tuple(
            f"kind {handler.kind} {handler.version} needs {need}: install it here, or, unless a probe says no, "
            "name it with --capability"
            for handler in self.handlers
            for need in handler.missing
        )


def open_catalog(
    modules: Sequence[str],
    *,
    import_path: Sequence[Path] = (),
    capabilities: Sequence[str] = (),
    environment: Mapping[str, str],
) -> Catalog:
    """Describe the modules and find out which of their needs are met here.

    A need is met if its probe says so, or, without a probe, if an executable of that name is on PATH or the
    operator declared it. Where a probe says no, the operator's word does not count.

    Args:
        capabilities: Declared by the operator.
        environment: What job code will see, see `environment.job_environment`.

    Raises:
        Invalid: A module cannot be imported or declares something wrong; says where.
    """
    described, notes = _describe(modules, import_path, environment)
    kinds = tuple(Kind(**{**kind, "needs": tuple(kind["needs"])}) for kind in described["kinds"])
    probed: dict[str, bool | str] = described["capabilities"]
    needed = {need for kind in kinds for need in kind.needs}
    path = environment.get("PATH", "")
    found = {name for name in (needed | {*capabilities}) - set(probed) if shutil.which(name, path=path)}
    found |= {name for name, answer in probed.items() if answer}
    has = found | {*capabilities} - set(probed)
    refuted = sorted({*capabilities} - has)
    notes += tuple(f"capability {name} was declared, but its probe says that this machine lacks it" for name in refuted)
    handlers = tuple(
        Handler(
            kind=kind.kind,
            version=kind.version,
            needs=kind.needs,
            missing=tuple(need for need in kind.needs if need not in has),
            result_ttl_s=kind.result_ttl_s,
        )
        for kind in kinds
    )
    return Catalog(kinds, handlers, tuple(sorted(has)), tuple(sorted(has - found)), notes)


def _describe(
    modules: Sequence[str], import_path: Sequence[Path], environment: Mapping[str, str]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    if not modules:
        raise Invalid("no job modules were named; name at least one, such as media.jobs")
    for module in modules:
        if not all(part.isidentifier() for part in module.split(".")):
            raise Invalid(f"module {module!r}: name it as in an import statement, such as media.jobs for media/jobs.py")
    paths = [argument for folder in import_path for argument in ("--path", str(folder))]
    command = [sys.executable, "-I", "-m", "planrun.jobs.describe", *paths, *modules]
    try:
        done = subprocess.run(
            command,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Invalid(
            f"importing {', '.join(modules)} took longer than {_TIMEOUT_S} s; do slow work in the job, not at import"
        ) from None
    said = tuple(line for line in done.stderr.splitlines() if line.strip())
    if done.returncode == 0:
        described: dict[str, Any] = json.loads(done.stdout)
        return described, said
    last = said[-1] if said else "it said nothing"
    if done.returncode == 2:
        raise Invalid(last)
    raise Invalid(f"importing {', '.join(modules)} ended the process ({done.returncode}): {last}")
