"""`lore graph`: list, check, draw, test and chat with agents that are graphs of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetlore.cli import arguments, open_log, terminal
from fleetlore.cli.main import FAILED, OK, UsageError
from fleetlore.errors import Invalid

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import Any

    from fleetlore.graph.settings import GraphSettings

SUMMARY = "talk to an agent made of nodes; list, check, draw and test its graph"

VERBS = ("list", "nodes", "check", "draw", "chat", "test")
FORMS = ("text", "mermaid", "dot")
_EXAMPLES = (
    ("lore graph chat", "talk to the usual agent, offline; ask it for a counter, then press +1 by /press count_up"),
    ("lore graph chat --graph reflex --session tea", "another graph, in a session that you can come back to"),
    ("lore graph chat --mind openai:gpt-5-mini", "with a model"),
    ("lore graph draw seven --form mermaid", "the graph, for a Markdown page"),
    ("lore graph nodes", "what graphs can be made of: ours, and those of installed packages"),
    ("lore graph check ./my.toml", "whether a graph of your own can be run; else everything that is wrong with it"),
    ("lore graph test examples/graph/*.md", "play scenarios, and see whether what they expect holds"),
)
_NOTES = """\
A conversation is recorded in your log as it goes; the same --session goes on where it ended. docs/graph.md tells how graphs, nodes and
scenarios are written.
"""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("verb", metavar="VERB", choices=VERBS, help="list, nodes, check, draw, chat or test")
    parser.add_argument("places", metavar="GRAPH|FILE", nargs="*", default=[], help="a graph's name or file; for test, scenario files")
    parser.add_argument("--form", choices=FORMS, help="draw: text, mermaid or dot (else text)")
    parser.add_argument("--graph", metavar="GRAPH", help="chat, test: which graph, by name or file (else the configuration's, else seven)")
    parser.add_argument("--session", metavar="ID", help="chat: go on with a session, or begin one of that name")
    parser.add_argument("--mind", metavar="ADDRESS", help="chat, test: scripted:, openai:MODEL, anthropic:MODEL (else the configuration's)")
    arguments.add_json(parser)
    arguments.teach(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Run the verb."""
    for name, verbs in (("form", ("draw",)), ("session", ("chat",)), ("graph", ("chat", "test")), ("mind", ("chat", "test"))):
        if getattr(args, name) is not None and args.verb not in verbs:
            raise UsageError(f"--{name} is for `lore graph {verbs[0]}`")
    if args.places and args.verb in ("list", "nodes", "chat"):
        raise UsageError(f"`lore graph {args.verb}` takes no {args.places[0]!r}" + ("; say --graph" if args.verb == "chat" else ""))
    if args.verb == "chat":
        from fleetlore.cli.graph.chat import run_chat

        return run_chat(args)
    if args.verb == "test":
        from fleetlore.cli.graph.test import run_scenarios

        return run_scenarios(args)
    return {"list": _list_graphs, "nodes": _list_nodes, "check": _check_graphs, "draw": _draw_graph}[args.verb](args)


def graph_settings_of(args: Namespace) -> GraphSettings:
    """The graph settings, with the flags on top."""
    from fleetlore.graph.settings import GraphSettings

    options = dict(open_log.settings_of(args).graph.value)
    if args.graph is not None:
        options["default"] = args.graph
    if args.mind is not None:
        options["minds"] = {"default": args.mind}
    return GraphSettings(**options)


def _list_graphs(args: Namespace) -> int:
    from fleetlore.graph import files

    settings = graph_settings_of(args)
    rows: list[dict[str, Any]] = []
    for name in files.names(settings.folder):
        try:
            graph = files.load(name, folder=settings.folder)
            rows.append({"name": name, "description": graph.description, "nodes": dict(graph.nodes), "default": name == settings.default})
        except Invalid as error:
            rows.append({"name": name, "description": f"cannot be read: {str(error).splitlines()[0]}", "nodes": {}, "default": False})
    if args.json:
        terminal.out_value({"graphs": rows})
        return OK
    for row in rows:
        mark = "*" if row["default"] else " "
        terminal.out(terminal.sanitise(f"{mark} {row['name']:<12}  {len(row['nodes'])} nodes  {row['description']}"))
    return OK


def _list_nodes(args: Namespace) -> int:
    from fleetlore.graph.registry import REGISTRY

    found = [(name, node) for name in REGISTRY.list_nodes() if (node := REGISTRY.find_node(name)) is not None]
    rows = [{"name": name, "from": node.made_of.__module__, "about": (node.__doc__ or "").partition("\n")[0]} for name, node in found]
    if args.json:
        terminal.out_value({"nodes": rows})
        return OK
    for row in rows:
        terminal.out(terminal.sanitise(f"{row['name']:<14}  {row['about']}  ({row['from']})"))
    return OK


def _check_graphs(args: Namespace) -> int:
    from fleetlore.graph import files as graph_files
    from fleetlore.graph.engine import Engine
    from fleetlore.graph.registry import REGISTRY

    settings, code = graph_settings_of(args), OK
    for place in args.places or graph_files.names(settings.folder):
        problems: list[str] = []
        try:
            graph = Engine(graph_files.load(place, folder=settings.folder), REGISTRY).graph
        except Invalid as error:
            problems, code = str(error).splitlines(), FAILED
        if args.json:
            terminal.out_value({"graph": place, "ok": not problems, "problems": problems})
        elif problems:
            for problem in problems:
                terminal.err(terminal.sanitise(problem))
        else:
            terminal.out(terminal.sanitise(f"{place}: fine. {len(graph.nodes)} nodes, {len(graph.edges)} edges"))
    return code


def _draw_graph(args: Namespace) -> int:
    from fleetlore.graph import drawing
    from fleetlore.graph import files as graph_files

    settings = graph_settings_of(args)
    for place in args.places or [settings.default]:
        graph = graph_files.load(place, folder=settings.folder)
        lines = list(drawing.FORMATS[args.form or "text"](graph))
        if args.json:
            terminal.out_value({"graph": graph.name, "form": args.form or "text", "drawing": "\n".join(lines)})
            continue
        for line in lines:
            terminal.out(terminal.sanitise(line))
    return OK
