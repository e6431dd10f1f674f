"""Graph settings from the settings files and the flags of `lore up` and `lore graph`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetlore.cli import open_log
from fleetlore.errors import Invalid

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from fleetlore.graph.settings import GraphSettings
    from fleetlore.settings import Settings

PROFILE = "default"
"""The model profile that `--mind ADDRESS` sets; also used for profiles without a model of their own."""


def add_options(parser: ArgumentParser) -> None:
    """Add `--graph` and `--mind`."""
    parser.add_argument("--graph", metavar="NAME", help="graph of new chat sessions")
    parser.add_argument(
        "--mind",
        metavar="[PROFILE=]ADDRESS",
        action="append",
        default=[],
        help="model: scripted:, openai:MODEL, anthropic:MODEL; PROFILE is default, quick or strong; may be repeated",
    )


def merge_graph_settings(settings: Settings, args: Namespace) -> GraphSettings:
    """The settings with the flags of `lore up`: `--mind` may be given for several profiles. An error if they are invalid."""
    import msgspec

    from fleetlore.graph.settings import GraphSettings

    options = dict(settings.graph.value)
    options["minds"] = {**options.get("minds", {}), **parse_model_options(args.mind)}
    if args.graph:
        options["default"] = args.graph
    return msgspec.convert(options, GraphSettings)


def parse_model_options(values: list[str]) -> dict[str, str]:
    """Profile → model address; `Invalid` at once for a wrong address, not at the first chat."""
    minds: dict[str, str] = {}
    for text in values:
        from fleetlore.models.open import parse_address

        profile, equals, address = text.partition("=")
        if not equals or ":" in profile:  # the `=` belongs to the address
            profile, address = PROFILE, text
        if profile in minds:
            raise Invalid(f"--mind {profile} is given twice; give it once")
        parse_address(address)
        minds[profile] = address
    return minds


def load_graph_settings(args: Namespace) -> GraphSettings:
    """The settings with the flags of `lore graph`: `--mind` is the default model."""
    from fleetlore.graph.settings import GraphSettings

    options = dict(open_log.load_settings_for(args).graph.value)
    if args.graph is not None:
        options["default"] = args.graph
    if args.mind is not None:
        options["minds"] = {"default": args.mind}
    return GraphSettings(**options)
