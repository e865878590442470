"""What guards a job's processes needs the standard library alone: it also runs where nothing else can be read."""

from __future__ import annotations

import subprocess
import sys

from tests.tidy.tree import ROOT


def test_the_guardian_of_a_job_loads_without_any_package() -> None:
    said = f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r}); import planrun.worker.process"

    subprocess.run([sys.executable, "-I", "-S", "-c", said], check=True, timeout=30)
