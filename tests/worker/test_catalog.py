"""What a worker learns of its job modules without ever importing them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from planrun.core.errors import Invalid
from planrun.core.kinds import Kind
from planrun.core.messages import Handler
from planrun.worker.catalog import Catalog, open_catalog

ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
MODULE = """
import sys
from planrun.jobs import capability, job

print("noise on standard output")

@capability("gpu")
def has_gpu():
    return "NVIDIA L4"

@capability("sh")
def has_sh():
    return False

@capability("unicorn")
def has_unicorn():
    raise RuntimeError("no such animal")

@job("render", needs=["gpu", "ls", "fast-disk"])
def render(j): ...

@job("magic", version="v2", needs=["unicorn", "sh", "nowhere"], warm=True, result_ttl="1d")
def magic(j): ...
"""


def catalog_of(folder: Path, source: str, **options: tuple[str, ...]) -> Catalog:
    (folder / "some_jobs.py").write_text(source)
    return open_catalog(["some_jobs"], import_path=[folder], environment=ENVIRONMENT, **options)


def test_kinds_needs_and_capabilities_are_read_in_another_process(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path, MODULE, capabilities=("fast-disk",))

    assert catalog.kinds == (
        Kind(kind="render", version="v1", module="some_jobs", needs=("gpu", "ls", "fast-disk")),
        Kind(
            kind="magic",
            version="v2",
            module="some_jobs",
            needs=("unicorn", "sh", "nowhere"),
            warm=True,
            result_ttl_s=86_400,
        ),
    )
    assert catalog.handlers == (
        Handler(kind="render", version="v1", needs=("gpu", "ls", "fast-disk")),
        # A probe that says no counts more than an executable of that name.
        Handler(
            kind="magic",
            version="v2",
            needs=("unicorn", "sh", "nowhere"),
            missing=("unicorn", "sh", "nowhere"),
            result_ttl_s=86_400,
        ),
    )
    assert catalog.capabilities == ("fast-disk", "gpu", "ls")
    assert "the probe of capability unicorn failed: RuntimeError: no such animal" in catalog.notes
    assert "some_jobs" not in sys.modules


def test_c66_where_a_probe_says_no_the_operators_word_does_not_count(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path, MODULE, capabilities=("unicorn", "sh", "nowhere", "gpu"))

    assert catalog.handlers[1].missing == ("unicorn", "sh")
    assert catalog.capabilities == ("gpu", "ls", "nowhere")
    assert "capability sh was declared, but its probe says that this machine lacks it" in catalog.notes
    assert "unless a probe says no, name it with --capability" in catalog.lacks[0]


def test_c66_what_nothing_but_the_operator_says_is_told_apart(tmp_path: Path) -> None:
    """A probe or an executable of that name verifies it."""
    catalog = catalog_of(tmp_path, MODULE, capabilities=("gpu", "fast-disk", "ls", "rack-7"))

    assert catalog.unverified == ("fast-disk", "rack-7")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def f(:\n", "some_jobs.py:1): SyntaxError: invalid syntax"),
        ("\n1/0", "some_jobs.py:2): ZeroDivisionError: division by zero"),
        ("import nothing_such", "some_jobs.py:1): ModuleNotFoundError: No module named 'nothing_such'"),
        ("", "no @job function in some_jobs; declare one"),
        ("from planrun.jobs import job\njob('a b')", "kind 'a b' is not a name"),
        ("import os; os._exit(9)", "importing some_jobs ended the process (9): it said nothing"),
        ("import sys; sys.exit('I refuse')", "SystemExit: I refuse"),
    ],
)
def test_a_module_that_is_wrong_is_refused_with_its_place(tmp_path: Path, source: str, words: str) -> None:
    with pytest.raises(Invalid) as refused:
        catalog_of(tmp_path, source)

    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_module_that_is_not_there_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(
        Invalid, match=r"no module named media\.jobs on the import path; install it, or name its folder"
    ):
        open_catalog(["media.jobs"], import_path=[tmp_path], environment=ENVIRONMENT)
    for path in ("./jobs", "media/jobs.py", ""):
        with pytest.raises(Invalid, match=r"name it as in an import statement, such as media\.jobs"):
            open_catalog([path], environment=ENVIRONMENT)
    with pytest.raises(Invalid, match=r"name it as in an import statement: jobs$"):
        open_catalog(["jobs.py"], environment=ENVIRONMENT)
    with pytest.raises(Invalid, match="no job modules were named"):
        open_catalog([], environment=ENVIRONMENT)
