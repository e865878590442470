"""A worker process for tests: `python -m tests.worker_main URL OPTIONS-AS-JSON`."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

from planrun import Worker


def main() -> int:
    url, options = sys.argv[1], json.loads(sys.argv[2])
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    if "scratch" in options:
        options["scratch"] = Path(options["scratch"])
    root = Path(__file__).parents[1]
    import_path = (root, *map(Path, options.pop("import_path", ())))
    return Worker(url, jobs=options.pop("jobs", ["tests.kit_jobs"]), import_path=import_path, **options).run()


if __name__ == "__main__":
    sys.exit(main())
