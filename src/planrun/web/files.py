"""Output files, whole or by range. A file is found by its name in the answer: no path is made of what a caller says."""

from __future__ import annotations

import asyncio
import mimetypes
import os
import re

from starlette.responses import FileResponse, RedirectResponse, Response

from planrun.client.answer import OutputFile
from planrun.core.errors import StorageError
from planrun.web.asked import JobQuery
from planrun.web.calls import Call
from planrun.web.problems import NO_OUTPUT, NO_RANGE, RESULT_GONE, Refused

RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")
# Bytes of a job, shown by a browser under this server's address: they may not act there.
HARMLESS = {"content-security-policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; media-src 'self'"}
LINK_TTL_S = 600.0  # to begin in; what has begun goes on
FOR_EVER = {"cache-control": "private, max-age=31536000, immutable"}


async def output(call: Call, *, query: JobQuery) -> Response:
    """One kept file, whole or one range of it. Its bytes never change, so that it may be cached for ever.

    Where results are in a bucket the answer is a redirect to an address there, good for ten minutes. It needs no token:
    do not send yours along.
    """
    job = await call.job(query.namespace)
    name = call.request.path_params["output"]
    files = (await job.result()).outputs
    if name not in files:
        has = f"it has {', '.join(sorted(files))}" if files else "it has none"
        raise Refused(NO_OUTPUT, f"{job.id} has no output {name!r:.80}; {has}")
    file = files[name]
    headers = {"etag": f'"{file.sha256}"', **FOR_EVER, **HARMLESS}
    if headers["etag"] in call.request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    link = await asyncio.to_thread(file.link, ttl_s=LINK_TTL_S)
    if link is not None:
        return RedirectResponse(link, 307, headers={"cache-control": "no-store"})
    _settle_range(call, file)
    status = await asyncio.to_thread(_look, file)
    kind = mimetypes.guess_type(file.key)[0] or "application/octet-stream"
    return FileResponse(file.path, headers=headers, media_type=kind, stat_result=status)


def _look(file: OutputFile) -> os.stat_result:
    """
    Raises:
        Refused: It is not there.
        StorageError: It is another one: nobody may keep that for ever.
    """
    try:
        status = file.path.stat()
    except (StorageError, OSError):
        raise Refused(RESULT_GONE, f"{file.key} is elsewhere, or no longer kept; submit the job again") from None
    if status.st_size != file.bytes:
        raise StorageError(
            f"{file.key} is damaged: {status.st_size} bytes of {file.bytes}; restore it from a backup, or retry the job"
        )
    return status


def _settle_range(call: Call, file: OutputFile) -> None:
    """Leave one range that the file has, or none: several at once, and what is no range, mean the whole file.

    Raises:
        Refused: The range begins behind the end of the file.
    """
    scope = call.request.scope
    asked = RANGE.fullmatch(call.request.headers.get("range", "").replace(" ", ""))
    if asked is not None:
        first, last = asked.groups()
        if (first and int(first) >= file.bytes) or (not first and last and (int(last) == 0 or file.bytes == 0)):
            detail = f"the file has {file.bytes} bytes; ask for a range inside"
            raise Refused(NO_RANGE, detail, {"content-range": f"bytes */{file.bytes}"})
        if (first and not last) or (last and not first) or (first and last and int(first) <= int(last)):
            return
    scope["headers"] = [(name, value) for name, value in scope["headers"] if name != b"range"]
