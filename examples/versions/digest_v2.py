"""What `digest_v1` becomes: another result, so another version. Callers of v1 never get this one.

planrun submit digest --version v2 --input file=digest_v2.py --wait
"""

import hashlib

from planrun.jobs import JobContext, job


@job("digest", version="v2")
def digest(j: JobContext) -> dict[str, str]:
    return {"digest": hashlib.sha256(j.inputs["file"].read_bytes()).hexdigest(), "algorithm": "sha256"}
