"""What a worker is told: wrong options are refused before anything is opened, in Python as from the shell."""

from __future__ import annotations

from typing import Any

import pytest

from planrun.core.errors import Invalid
from planrun.embed import Worker


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"jobs": "media.jobs"}, "modules: pass a list, not 'media.jobs'"),
        ({"import_path": "src"}, "import_path: pass a list"),
        ({"slots": 0}, "slots 0: use 1 or more"),
        ({"slots": 1.5}, "slots 1.5: use a whole number"),
        ({"slots": "2"}, "slots '2'"),
        ({"lease_s": float("inf")}, "lease_s inf"),
        ({"drain_grace_s": float("nan")}, "drain_grace_s nan"),
        ({"namespace": "a/b"}, "namespace 'a/b': use letters"),
        ({"capabilities": ["a b"]}, "capability 'a b': use letters"),
        ({"job_ttl_s": -1}, "job_ttl_s -1: use 0 or more"),
        ({"ids_ttl_s": 3600}, "ids_ttl_s 3600: use 604800 or more"),
        ({"scratch": "/tmp"}, "scratch: pass a Path"),
        ({"slot": 1}, "no such option"),
    ],
)
def test_an_option_that_cannot_be_right_is_refused_and_says_why(options: dict[str, Any], words: str) -> None:
    with pytest.raises(Invalid) as refused:
        Worker("sqlite:///never-opened.db", **{"jobs": ["media.jobs"], **options})

    assert words in str(refused.value)
