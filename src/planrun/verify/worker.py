"""A worker of a run: `python -m planrun.verify.worker URL OPTIONS-AS-JSON`. It ends with whoever started it."""

from __future__ import annotations

import ctypes
import json
import logging
import os
import signal
import sys
from pathlib import Path

from planrun.embed import Worker

WHOSE = "PLANRUN_VERIFY"  # says in the environment of each of its processes which run they belong to, for people
_PR_SET_PDEATHSIG = 1


def main() -> int:
    url, options = sys.argv[1:]
    _end_with(int(os.environ[WHOSE]))
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    told = json.loads(options)
    return Worker(url, jobs=["planrun.verify.kinds"], scratch=Path(told.pop("scratch")), **told).run()


def _end_with(parent: int) -> None:
    """Be killed when that process dies, even killed or while this one is frozen: nobody else would end it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("whoever started this worker is gone")


if __name__ == "__main__":
    sys.exit(main())
