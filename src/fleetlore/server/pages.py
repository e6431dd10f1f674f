"""The control room's files, as they were built from `web/`."""

from __future__ import annotations

import os

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

FOLDER = os.path.join(os.path.dirname(__file__), "static")
NO_PAGES = ("api", "hooks", "v1", "ws")
"""Words that programs ask for: an answer in HTML would not help them."""
_FOR_EVER = "public, max-age=31536000, immutable"
_NOT_BUILT = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Fleetlore</title>
<h1>The control room is not built</h1>
<p>This came from a checkout whose pages were not made yet. There, <code>make web</code> makes them (it needs Node 20), and
<code>make wheel</code> a wheel that has them inside: install that one, or load this page again if you run from the checkout.
The API works without them: see <a href="/openapi.json">/openapi.json</a>.</p></html>
"""


class Assets(StaticFiles):
    """Files whose names say what is in them: they never change. Where no pages were built, there are none."""

    async def check_config(self) -> None:
        """Nothing that could be wrong: a file of a folder that is not there is not found."""

    def file_response(self, *args: object, **kwargs: object) -> Response:
        """A file, to be kept for ever."""
        response = super().file_response(*args, **kwargs)  # type: ignore[arg-type]  # handed on as it came
        response.headers["cache-control"] = _FOR_EVER
        return response


def are_built() -> bool:
    """Whether there is anything to show."""
    return os.path.isfile(os.path.join(FOLDER, "index.html"))


def page(request: Request) -> Response:
    """The one page, under whatever name it is linked to; a name with a dot is a file beside it, such as the icon."""
    name = request.path_params.get("name", "")
    if name in NO_PAGES:
        raise HTTPException(404)
    path = os.path.join(FOLDER, name if "." in name else "index.html")
    if os.path.isfile(path):
        return FileResponse(path, headers={"cache-control": "no-cache"})
    if "." in name:
        raise HTTPException(404)
    return HTMLResponse(_NOT_BUILT)


def routes() -> list[BaseRoute]:
    """The page and its files."""
    assets = Assets(directory=os.path.join(FOLDER, "assets"), check_dir=False)
    return [
        Mount("/assets", assets),
        Route("/", page, methods=["GET"]),
        Route("/{name}", page, methods=["GET"]),
        Route("/goals/{goal:path}", page, methods=["GET"]),
    ]
