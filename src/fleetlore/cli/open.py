"""`lore open`: open the running control room in the browser, signed in by a one-time link."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from fleetlore.cli import arguments, open_log, terminal
from fleetlore.errors import NotFound, Unreachable

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

TIMEOUT_SECONDS = 10.0
SCOPES = ("read", "approve", "write", "admin")
_EXAMPLES = (
    ("lore open", "open the control room; the browser stays signed in for 90 days"),
    ("lore open /sessions", "open a page of it"),
    ("lore open --print", "print the link instead, to open it elsewhere on this machine"),
    ("lore open --scope read", "sign the browser in for reading only"),
)
_NOTES = """\
The link works once, within two minutes. `lore up` must be running for the same log. What a browser
keeps is a token of its own: `lore token list` shows it, `lore token revoke ID` signs it out.
"""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("page", metavar="PAGE", nargs="?", default="/", help="the page to open, such as /sessions (/)")
    parser.add_argument("--print", action="store_true", help="print the link instead of opening a browser")
    parser.add_argument("--scope", metavar="S", choices=SCOPES, help=f"what the browser may do: {', '.join(SCOPES)} (all that you may)")
    arguments.add_json(parser)
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Ask the server for a link and open it."""
    from fleetlore.server.security.local_token import find_server

    with open_log.open_log(args) as log:
        server = find_server(log.info())
    if server is None:
        raise NotFound("no server is running for this log; start one with `lore up --open`")
    url, secret = server
    path = _request_link_path(url, secret, args.scope)  # with a query: the one-time secret
    link = f"{url.rstrip('/')}{path}&to={quote('/' + args.page.lstrip('/'))}"
    if args.json:
        terminal.print_value({"link": link})
    elif args.print:
        terminal.print_line(link)
    else:
        from fleetlore.cli.up.command import open_browser

        open_browser(link)
    return 0


def _request_link_path(url: str, secret: str, scope: str | None) -> str:
    import json
    from http.client import HTTPConnection, HTTPException
    from urllib.parse import urlsplit

    address = urlsplit(url)
    connection = HTTPConnection(address.hostname or "", address.port, timeout=TIMEOUT_SECONDS)
    headers = {"authorization": f"Bearer {secret}", "content-type": "application/json"}
    try:
        connection.request("POST", "/api/links", json.dumps({"scope": scope} if scope else {}), headers)
        response = connection.getresponse()
        answer = json.loads(response.read())
    except (OSError, HTTPException, ValueError) as error:
        raise Unreachable(f"{url}: the server does not answer ({error}); restart it with `lore up --open`") from error
    finally:
        connection.close()
    if response.status != 200:
        raise Unreachable(f"{url}: {answer.get('detail', response.reason)}")
    return str(answer["path"])
