"""The how-to of the HTTP API does what it says."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.tidy.tree import ROOT
from tests.web.test_up import folder, started

__all__ = ["folder"]

BLOCK = re.compile(r"^```bash\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGE = (ROOT / "docs/howto/http-api.md").read_text("utf-8")


@pytest.mark.needs("curl")
def test_every_curl_of_the_how_to_works(folder: Path) -> None:
    (folder / "holiday.mov").write_bytes(b"raw")
    script = (
        "\n".join(BLOCK.findall(PAGE)).replace("/srv/in", str(folder)).replace("curl -s", "curl --fail-with-body -s")
    )
    assert script.count("curl") > 8
    with started() as up:
        script = script.replace("127.0.0.1:8470", f"127.0.0.1:{up.port}")
        done = subprocess.run(
            ["bash", "-euc", script], cwd=folder, capture_output=True, text=True, check=False, timeout=90
        )

    assert done.returncode == 0, done.stdout + done.stderr
    assert (folder / "holiday.mp4").read_bytes() == b"film"
    assert "event: end" in done.stdout
    replies = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [reply for reply in replies if reply.get("status", 200) >= 400] == []


def test_the_example_of_a_problem_is_one() -> None:
    [problem] = [json.loads(text) for text in re.findall(r"^```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)]

    assert set(problem) == {"type", "title", "status", "detail", "job_id"}
