"""A kind whose result is about to change. `digest_v2` stands beside it until nobody asks for this one any more.

planrun worker digest_v1 digest_v2
planrun submit digest --version v1 --input file=digest_v1.py --wait
"""

import hashlib

from planrun.jobs import JobContext, job


@job("digest", version="v1")
def digest(j: JobContext) -> dict[str, str]:
    return {"digest": hashlib.sha1(j.inputs["file"].read_bytes()).hexdigest()}
