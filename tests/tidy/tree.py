"""What the house rules look at: the files of the repository, and the names in them."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "src" / "planrun"


@cache
def files(*suffixes: str) -> tuple[Path, ...]:
    """The files that are, or would be, committed; those with one of the suffixes, or all."""
    listed = subprocess.run(
        # Whoever owns the checkout: CI often runs as somebody else.
        ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    paths = (ROOT / name for name in listed.split("\0") if name)
    return tuple(path for path in paths if path.is_file() and (not suffixes or path.suffix in suffixes))


@cache
def texts(*suffixes: str) -> dict[str, str]:
    """Path below the root → text, of the files that are text."""
    read = {}
    for path in files(*suffixes):
        content = path.read_bytes()
        if b"\0" not in content:
            read[shown(path)] = content.decode("utf-8")
    return read


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"), filename=str(path))


def python(below: Path = ROOT) -> list[Path]:
    return [path for path in files(".py") if path.is_relative_to(below)]


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def identifiers(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Every name that the module gives to something, and its line."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, node.lineno
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name, node.lineno


def dotted(node: ast.expr) -> str:
    """`a.b.c` as it is written, empty if it is not a plain chain of names."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            left = dotted(value)
            return f"{left}.{name}" if left else ""
        case _:
            return ""


def imported(tree: ast.Module, package: str) -> Iterator[tuple[str, int]]:
    """The modules that a module names in its imports, wherever they stand. `package`: for relative ones."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield alias.name, node.lineno
            case ast.ImportFrom(module=module, names=names, level=level):
                parents = package.split(".")
                base = ".".join(parents[: len(parents) - level + 1]) if level else ""
                origin = ".".join(part for part in (base, module) if part)
                for alias in names:
                    yield f"{origin}.{alias.name}", node.lineno


def module_name(path: Path, source: Path) -> str:
    """The import path of a file below a source folder such as src/."""
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
