"""Job code sees what is on a list, and nothing else."""

from __future__ import annotations

from planrun.worker.environment import job_environment

HARMLESS = {"PATH": "/bin", "LANG": "C", "LC_ALL": "C", "TZ": "UTC", "CUDA_VISIBLE_DEVICES": "0", "NVIDIA_CAPS": "all"}
SECRET = {"AWS_SECRET_ACCESS_KEY": "x", "PLANRUN_URL": "sqlite:///a.db", "PLANRUN_TREE": "1@/a", "MY_TOKEN": "x"}
SECRET |= dict.fromkeys(
    ["PLANRUN_TOKEN", "PLANRUN_BROKER", "PLANRUN_KEY", "PLANRUN_WEBHOOK_SECRET", "AWS_SESSION_TOKEN"], "x"
)


def test_only_what_is_on_the_list_gets_through() -> None:
    assert job_environment({**HARMLESS, **SECRET}) == HARMLESS


def test_the_operator_may_let_more_through_by_name() -> None:
    assert job_environment({**HARMLESS, **SECRET}, passed=["MY_TOKEN", "ABSENT"]) == {**HARMLESS, "MY_TOKEN": "x"}
