"""A job whose process is kept for the next one: what takes long to load is loaded once.

planrun worker warm_jobs &
planrun submit guess text="the cat sat" --wait
planrun submit guess text="le chat est assis" --wait
"""

from __future__ import annotations

import os
import time
from functools import cache

from planrun.jobs import JobContext, job


@cache
def model() -> dict[str, set[str]]:
    """Stands for something large, such as the weights of a network."""
    time.sleep(1)
    return {"en": {"the", "a", "is", "on"}, "fr": {"le", "la", "est", "sur"}, "de": {"der", "die", "ist", "auf"}}


@job("guess", warm=True, stall_s=120)
def guess(j: JobContext) -> dict[str, object]:
    words = set(str(j.params["text"]).lower().split())
    languages = model()
    best = max(languages, key=lambda language: len(languages[language] & words))
    return {"language": best, "process": os.getpid()}
