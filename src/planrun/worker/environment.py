"""What job code may see of the worker's environment: what is on a list, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_NAMES = frozenset(
    {
        "CUDA_VISIBLE_DEVICES",
        "LANG",
        "LANGUAGE",
        "LD_LIBRARY_PATH",
        "PATH",
        "PLANRUN_FFMPEG",
        "TZ",
        "VIRTUAL_ENV",
    }
)
_PREFIXES = ("LC_", "NVIDIA_")


def job_environment(environment: Mapping[str, str], *, passed: Sequence[str] = ()) -> dict[str, str]:
    """The environment of job processes.

    Args:
        environment: The worker's own.
        passed: Names that the operator lets through beside those on the list.
    """
    return {
        name: value
        for name, value in environment.items()
        if name in _NAMES or name in passed or name.startswith(_PREFIXES)
    }
