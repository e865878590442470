"""The pages and what they call.

POST   /clips?title=…          the raw bytes of a clip; answers with the owner's page
GET    PAGE                    where PAGE is /clips/<owner's name>, or /shared/<public name> for anybody else
GET    PAGE/preview            where the preview is, as JSON; asks for it if nobody has
GET    PAGE/progress           the same as it changes, as server-sent events
GET    PAGE/preview.mp4        the finished preview, also in parts
POST   PAGE/preview            ask once more, after a failure or a cancel (owner)
DELETE PAGE/preview            cancel (owner)
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from examples.preview_app.previews import Previews
from examples.preview_app.uploads import Clip, Refused, Uploads, too_large
from planrun import AsyncClient, PlanrunError

STATIC = Path(__file__).with_name("static")
HEADERS = {
    "content-security-policy": "default-src 'self'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",  # the owner's address is a secret
    "x-content-type-options": "nosniff",
}
log = logging.getLogger(__name__)
FOR_EVER = "private, max-age=31536000, immutable"


def build_app(url: str, folder: Path, *, bytes_max: int) -> Starlette:
    """The app over one ledger and one folder of uploads."""

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with AsyncClient(url) as client:
            app.state.uploads = Uploads(folder, bytes_max=bytes_max)
            app.state.previews = Previews(client)
            yield

    routes = [
        Route("/", upload_page),
        Route("/limits", limits),
        Route("/clips", upload, methods=["POST"]),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    for page in ("/clips/{owned}", "/shared/{shared}"):
        routes += [
            Route(page, clip_page),
            Route(f"{page}/preview", show, methods=["GET"]),
            Route(f"{page}/preview", ask, methods=["POST"]),
            Route(f"{page}/preview", cancel, methods=["DELETE"]),
            Route(f"{page}/progress", progress),
            Route(f"{page}/preview.mp4", video),
        ]
    return Starlette(
        routes=routes,
        lifespan=lifespan,
        middleware=[Middleware(SafeHeaders)],
        exception_handlers={Refused: _refused, HTTPException: _not_so, PlanrunError: _no_answer},
    )


# --- what the routes do ---


async def upload_page(request: Request) -> Response:
    return FileResponse(STATIC / "upload.html")


async def limits(request: Request) -> Response:
    return JSONResponse({"bytes_max": _uploads(request).bytes_max})


async def upload(request: Request) -> Response:
    uploads = _uploads(request)
    if int(request.headers.get("content-length", "0")) > uploads.bytes_max:
        raise too_large(uploads.bytes_max)
    try:
        owners = await uploads.take(request.query_params.get("title", ""), request.stream())
    except ClientDisconnect:
        return Response(status_code=400)  # nobody is there to read it
    return JSONResponse({"page": f"/clips/{owners}"}, status_code=201)


async def clip_page(request: Request) -> Response:
    _clip(request)
    return FileResponse(STATIC / "clip.html")


async def show(request: Request) -> Response:
    clip = _clip(request)
    return JSONResponse(_about(clip) | await _previews(request).now(clip))


async def ask(request: Request) -> Response:
    clip = _own_clip(request)
    await _previews(request).ask(clip)
    return JSONResponse(await _previews(request).now(clip))


async def cancel(request: Request) -> Response:
    clip = _own_clip(request)
    await _previews(request).cancel(clip)
    return JSONResponse(await _previews(request).now(clip))


async def progress(request: Request) -> Response:
    clip = _clip(request)

    async def events() -> AsyncIterator[str]:
        try:
            async for view in _previews(request).follow(clip):
                yield f"data: {json.dumps(_about(clip) | view)}\n\n"
        except PlanrunError as error:
            log.warning("a page is left to ask again: %s", error)

    return StreamingResponse(events(), media_type="text/event-stream", headers={"cache-control": "no-store"})


async def video(request: Request) -> Response:
    answer = await _previews(request).finished(_clip(request))
    if answer is None:
        raise HTTPException(404, "There is no finished preview yet.")
    path = answer.outputs["preview"].path
    return FileResponse(path, media_type="video/mp4", headers={"cache-control": FOR_EVER})


# --- what they share ---


class SafeHeaders:
    """Adds what every answer carries."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_more(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await self._app(scope, receive, send_more)


def _uploads(request: Request) -> Uploads:
    uploads: Uploads = request.app.state.uploads
    return uploads


def _previews(request: Request) -> Previews:
    previews: Previews = request.app.state.previews
    return previews


def _clip(request: Request) -> Clip:
    uploads, names = _uploads(request), request.path_params
    clip = uploads.owned(names["owned"]) if "owned" in names else uploads.shared(names["shared"])
    if clip is None:
        raise HTTPException(404, "There is no such clip. Look at the address again, or upload the clip anew.")
    return clip


def _own_clip(request: Request) -> Clip:
    clip = _clip(request)
    if not clip.is_owners:
        raise HTTPException(403, "Only who uploaded the clip can do this.")
    return clip


def _about(clip: Clip) -> dict[str, object]:
    return {"title": clip.title, "shared": f"/shared/{clip.shared}", "is_owners": clip.is_owners}


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return JSONResponse({"error": str(error)}, status_code=error.status)


async def _not_so(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if "text/html" in request.headers.get("accept", ""):
        return FileResponse(STATIC / "gone.html", status_code=error.status_code)
    return JSONResponse({"error": error.detail}, status_code=error.status_code)


async def _no_answer(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": f"planrun: {error}"}, status_code=503, headers={"retry-after": "2"})
