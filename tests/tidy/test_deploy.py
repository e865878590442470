"""What deploy/ starts are commands and options that exist, with variables that are listed."""

from __future__ import annotations

import json
import re
import shlex
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from planrun.cli.app import build_app
from planrun.core.generations import Mark, generation_key, mark_key
from planrun.core.manifests import manifest_key
from planrun.core.names import attempt_prefix, log_key, object_key
from planrun.storage.probe import TOUCHED
from tests.tidy.tree import ROOT, texts

DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
EXEC = re.compile(r"^ExecStart=/opt/planrun/bin/planrun (.*)$", re.MULTILINE)
SETS = re.compile(r"^#?([A-Z_]+)=(.*)$", re.MULTILINE)
VARIABLE = re.compile(r"`([A-Z][A-Z_]+)`")
OF_OTHERS = {"MODULES", "XDG_CACHE_HOME", "BROKER_PASSWORD", "S3_SECRET", "PLANRUN_WORK_TOKEN"}
SERVICES: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]


def parse(tokens: list[str]) -> None:
    build_app().parse_args(tokens, exit_on_error=False, print_error=False)


def variables(file: Path) -> dict[str, str]:
    return dict(SETS.findall(file.read_text("utf-8")))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_what_a_unit_starts_is_a_command_with_options_that_it_has(
    unit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (line,) = EXEC.findall(unit.read_text("utf-8"))
    modules = variables(DEPLOY / "systemd" / "worker.env")["MODULES"]
    tokens = shlex.split(line.replace("$MODULES", modules).replace("${CREDENTIALS_DIRECTORY}", str(tmp_path)))

    parse(tokens)
    with pytest.raises(Exception, match="--lsten"):
        parse([*tokens, "--lsten"])


@pytest.mark.parametrize("name", ["orchestrator", "worker"])
def test_what_compose_starts_is_a_command_with_options_that_it_has(name: str) -> None:
    parse(SERVICES[name]["command"])


def test_every_service_that_compose_waits_for_is_one_and_all_come_back() -> None:
    waited = {other for service in SERVICES.values() for other in service.get("depends_on", ())}

    assert waited
    assert waited <= SERVICES.keys()
    assert all(service["restart"] == "unless-stopped" for service in SERVICES.values())


def test_a_worker_may_store_what_its_attempts_made_and_nothing_that_decides() -> None:
    policy = json.loads((DEPLOY / "s3" / "worker.json").read_text("utf-8"))
    [places] = [each["Resource"] for each in policy["Statement"] if "s3:PutObject" in each["Action"]]

    def may_store(key: str) -> bool:
        return any(fnmatchcase(f"arn:aws:s3:::results/planrun/{key}", place) for place in places)

    prefix = attempt_prefix("films", "j1", 1, 7)
    assert all(may_store(key) for key in (object_key(prefix, "0" * 64, "out.mp4"), log_key(prefix), TOUCHED))
    decide = (manifest_key("films", "j1"), generation_key("u", 1), mark_key("u", Mark(generation=1, n=2)))
    assert not any(may_store(key) for key in decide)


def test_every_variable_that_deploy_sets_is_in_the_reference() -> None:
    listed = set(VARIABLE.findall(texts(".md")["docs/reference/config.md"])) | OF_OTHERS
    files = [*(DEPLOY / "systemd").glob("*.env"), DEPLOY / ".env.example"]
    of_files = {name for file in files for name in variables(file)}
    of_compose = {name for name in ("orchestrator", "worker") for name in SERVICES[name]["environment"]}

    assert len(of_files) > 8
    assert sorted((of_files | of_compose) - listed) == []
