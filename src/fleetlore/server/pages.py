"""Serves the control room: the files that `make web` builds from `web/`."""

from __future__ import annotations

import os

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import BaseRoute, Match, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

FOLDER = os.path.join(os.path.dirname(__file__), "static")
RESERVED_NAMES = ("api", "hooks", "v1", "ws")
"""First path segments that programs use: they get a 404 instead of HTML."""
_CACHE_FOREVER = "public, max-age=31536000, immutable"
_NOT_BUILT = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Fleetlore</title>
<h1>The control room is not built</h1>
<p>This came from a checkout whose pages were not made yet. There, <code>make web</code> makes them (it needs Node 20), and
<code>make wheel</code> a wheel that has them inside: install that one, or load this page again if you run from the checkout.
The API works without them: see <a href="/openapi.json">/openapi.json</a>.</p></html>
"""


class AssetFiles(StaticFiles):
    """Files with a content hash in their names, cached for ever. The folder may be missing (pages not built): then every file is a 404."""

    async def check_config(self) -> None:
        """Skip Starlette's check that the folder exists."""

    def file_response(self, *args: object, **kwargs: object) -> Response:
        """A file with a cache header."""
        response = super().file_response(*args, **kwargs)  # type: ignore[arg-type]  # passed through
        response.headers["cache-control"] = _CACHE_FOREVER
        return response


def are_built() -> bool:
    """Whether `make web` was run."""
    return os.path.isfile(os.path.join(FOLDER, "index.html"))


def serve_page(request: Request) -> Response:
    """The single-page app, under any name; a name with a dot is a file beside it, such as the icon."""
    name = request.path_params.get("name", "")
    path = os.path.join(FOLDER, name if "." in name else "index.html")
    if os.path.isfile(path):
        return FileResponse(path, headers={"cache-control": "no-cache"})
    if "." in name:
        raise HTTPException(404)
    return HTMLResponse(_NOT_BUILT)


class PageRoute(Route):
    """A route that leaves paths of programs alone, so that other methods there get a 404 and not a 405."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """No match for a reserved first segment."""
        first = scope.get("path", "").lstrip("/").partition("/")[0]
        return (Match.NONE, {}) if first in (*RESERVED_NAMES, "assets") else super().matches(scope)


def build_routes() -> list[BaseRoute]:
    """Routes of the page and its files."""
    assets = AssetFiles(directory=os.path.join(FOLDER, "assets"), check_dir=False)
    return [
        Mount("/assets", assets),
        Route("/", serve_page, methods=["GET"]),
        PageRoute("/{name}", serve_page, methods=["GET"]),
        PageRoute("/{page}/{rest:path}", serve_page, methods=["GET"]),
    ]
