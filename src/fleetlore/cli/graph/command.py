"""`lore graph`: list, check, draw, test and chat with agents that are graphs of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetlore.cli import arguments, terminal
from fleetlore.cli.graph.settings import load_graph_settings
from fleetlore.cli.main import FAILED, OK, UsageError
from fleetlore.errors import Invalid

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import Any

    from fleetlore.graph.scenarios import ExpectationResult

VERBS = ("list", "nodes", "check", "draw", "chat", "test")
FORMS = ("text", "mermaid", "dot")
_EXAMPLES = (
    ("lore graph chat", "chat with the default agent, offline; ask for a counter, then type /press count_up"),
    ("lore graph chat --graph reflex --session tea", "use another graph, in a session that you can resume"),
    ("lore graph chat --mind openai:gpt-5-mini", "use a model"),
    ("lore graph draw seven --form mermaid", "draw the graph for a Markdown page"),
    ("lore graph nodes", "list node types, built-in and installed"),
    ("lore graph check ./my.toml", "check a graph file and print every problem"),
    ("lore graph test examples/graph/*.md", "run scenarios and check their expectations"),
)
_NOTES = """\
Conversations are recorded in your log; use the same --session to continue one.
docs/graph.md describes graphs, nodes and scenarios.
"""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("verb", metavar="VERB", choices=VERBS, help="list, nodes, check, draw, chat or test")
    parser.add_argument("places", metavar="GRAPH|FILE", nargs="*", default=[], help="a graph's name or file; for test, scenario files")
    parser.add_argument("--form", choices=FORMS, help="draw: text, mermaid or dot (text)")
    parser.add_argument("--graph", metavar="GRAPH", help="chat, test: a graph's name or file (default: from the settings, or seven)")
    parser.add_argument("--session", metavar="ID", help="chat: resume the session with this id, or start it")
    parser.add_argument(
        "--mind", metavar="ADDRESS", help="chat, test: scripted:, openai:MODEL, anthropic:MODEL (default: from the settings)"
    )
    arguments.add_json(parser)
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Run the verb."""
    for name, verbs in (("form", ("draw",)), ("session", ("chat",)), ("graph", ("chat", "test")), ("mind", ("chat", "test"))):
        if getattr(args, name) is not None and args.verb not in verbs:
            raise UsageError(f"--{name} is for {' and '.join(f'`lore graph {verb}`' for verb in verbs)}")
    if args.places and args.verb in ("list", "nodes", "chat"):
        raise UsageError(f"`lore graph {args.verb}` takes no {args.places[0]!r}" + ("; use --graph" if args.verb == "chat" else ""))
    if args.verb == "chat":
        from fleetlore.cli.graph.chat import run_chat

        return run_chat(args)
    return {"list": _list_graphs, "nodes": _list_nodes, "check": _check_graphs, "draw": _draw_graph, "test": _test_graphs}[args.verb](args)


def _list_graphs(args: Namespace) -> int:
    from fleetlore.graph import files

    settings = load_graph_settings(args)
    rows: list[dict[str, Any]] = []
    for name in files.list_graphs(settings.folder):
        try:
            graph = files.load_graph(name, folder=settings.folder)
            rows.append({"name": name, "description": graph.description, "nodes": dict(graph.nodes), "default": name == settings.default})
        except Invalid as error:
            rows.append(
                {
                    "name": name,
                    "description": f"cannot be read: {str(error).splitlines()[0]}",
                    "nodes": {},
                    "default": name == settings.default,
                }
            )
    if args.json:
        terminal.print_value({"graphs": rows})
        return OK
    for row in rows:
        mark = "*" if row["default"] else " "
        terminal.print_line(terminal.sanitise_text(f"{mark} {row['name']:<12}  {len(row['nodes'])} nodes  {row['description']}"))
    return OK


def _list_nodes(args: Namespace) -> int:
    from fleetlore.graph.registry import REGISTRY

    found = [(name, node) for name in REGISTRY.list_nodes() if (node := REGISTRY.find_node(name)) is not None]
    rows = [{"name": name, "from": node.made_of.__module__, "about": (node.__doc__ or "").partition("\n")[0]} for name, node in found]
    if args.json:
        terminal.print_value({"nodes": rows})
        return OK
    for row in rows:
        terminal.print_line(terminal.sanitise_text(f"{row['name']:<14}  {row['about']}  ({row['from']})"))
    return OK


def _check_graphs(args: Namespace) -> int:
    from fleetlore.graph import files as graph_files
    from fleetlore.graph.engine import Engine
    from fleetlore.graph.registry import REGISTRY

    settings, code = load_graph_settings(args), OK
    for place in args.places or graph_files.list_graphs(settings.folder):
        problems: list[str] = []
        try:
            graph = Engine(graph_files.load_graph(place, folder=settings.folder), REGISTRY).graph
        except Invalid as error:
            problems, code = str(error).splitlines(), FAILED
        if args.json:
            terminal.print_value({"graph": place, "ok": not problems, "problems": problems})
        elif problems:
            for problem in problems:
                terminal.print_error(terminal.sanitise_text(problem))
        else:
            terminal.print_line(terminal.sanitise_text(f"{place}: valid. {len(graph.nodes)} nodes, {len(graph.edges)} edges"))
    return code


def _draw_graph(args: Namespace) -> int:
    from fleetlore.graph import drawing
    from fleetlore.graph import files as graph_files

    settings = load_graph_settings(args)
    for place in args.places or [settings.default]:
        graph = graph_files.load_graph(place, folder=settings.folder)
        lines = list(drawing.FORMATS[args.form or "text"](graph))
        if args.json:
            terminal.print_value({"graph": graph.name, "form": args.form or "text", "drawing": "\n".join(lines)})
            continue
        for line in lines:
            terminal.print_line(terminal.sanitise_text(line))
    return OK


def _test_graphs(args: Namespace) -> int:
    """Run scenarios one by one, each in its own session on a log in memory; exit code 1 if an expectation fails."""
    import asyncio

    if not args.places:
        raise UsageError("scenario files are missing, as in `lore graph test examples/graph/*.md`")
    return asyncio.run(_run_scenarios(args))


async def _run_scenarios(args: Namespace) -> int:
    from fleetlore.graph import scenarios
    from fleetlore.graph.sessions import SessionManager
    from fleetlore.log.connect import connect

    parsed = [scenarios.parse_scenario(_read_file(place), place) for place in args.places]
    failed = 0
    async with connect("memory:") as log, SessionManager(log, load_graph_settings(args)) as sessions:
        for scenario in parsed:
            results = await scenarios.run_scenario(scenario, sessions)
            failures = scenarios.select_failures(results)
            failed += len(failures)
            if args.json:
                shown = [scenarios.result_to_dict(result) for result in results]
                terminal.print_value({"file": scenario.source, "title": scenario.title, "ok": not failures, "findings": shown})
                continue
            _print_scenario_result(scenario.source, scenario.title, results, failures)
    return FAILED if failed else OK


def _print_scenario_result(source: str, title: str, results: list[ExpectationResult], failures: list[ExpectationResult]) -> None:
    verdict = f"{len(results)} passed" if not failures else f"{len(failures)} of {len(results)} failed"
    terminal.print_line(terminal.sanitise_text(f"{source}: {title}: {verdict}"))
    for result in failures:
        terminal.print_line(terminal.sanitise_text(f"  {source}:{result.line}: {result.step}: {result.wanted}: {result.wrong}"))


def _read_file(place: str) -> str:
    from pathlib import Path

    try:
        return Path(place).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"{place}: cannot be read ({error}); check the path and its permissions") from error
