"""From flags and the settings file to what conversational agents are run with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetlore.errors import Invalid

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from fleetlore.graph.settings import GraphSettings
    from fleetlore.settings import Settings

PROFILE = "default"
"""Whose mind `--mind ADDRESS` names; nodes that ask for another go to it, too, unless that one is named."""


def add_options(parser: ArgumentParser) -> None:
    """`--graph` and `--mind`."""
    parser.add_argument("--graph", metavar="NAME", help="the graph that a new conversation with an agent begins with")
    parser.add_argument(
        "--mind",
        metavar="[PROFILE=]ADDRESS",
        action="append",
        default=[],
        help="who answers: scripted:, openai:MODEL, anthropic:MODEL; PROFILE is default, quick or strong; may be repeated",
    )


def graph_settings(settings: Settings, args: Namespace) -> GraphSettings:
    """What the file says, and over it what the flags say; `Invalid` for what cannot be."""
    import msgspec

    from fleetlore.graph.settings import GraphSettings

    said = dict(settings.graph.value)
    said["minds"] = {**said.get("minds", {}), **minds_of(args.mind)}
    if args.graph:
        said["default"] = args.graph
    return msgspec.convert(said, GraphSettings)


def minds_of(given: list[str]) -> dict[str, str]:
    """Profile → address; what cannot be opened is refused at once, and not when somebody first says something."""
    minds: dict[str, str] = {}
    for text in given:
        from fleetlore.models.open import parse_address

        profile, equals, address = text.partition("=")
        if not equals or ":" in profile:  # the mark belongs to the address
            profile, address = PROFILE, text
        if profile in minds:
            raise Invalid(f"--mind: {profile} is given twice; say it once")
        parse_address(address)
        minds[profile] = address
    return minds
