"""`lore stage`: list, check and run stage scenarios, live in the terminal."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fleetlore import clock
from fleetlore import settings as config
from fleetlore.cli import arguments, open_log, terminal
from fleetlore.cli.main import INTERRUPTED, OK, UsageError
from fleetlore.errors import Invalid, LogError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Coroutine, Mapping, Sequence
    from typing import Any

    from fleetlore.events.envelope import Event
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.prompts.memory import Nearness
    from fleetlore.prompts.turn import PromptSettings
    from fleetlore.stage.conductor import Conductor, StageEventCallback
    from fleetlore.stage.run_state import RunState
    from fleetlore.stage.scenario import StageScenario

VERBS = ("list", "check", "run")
MAX_TURNS = 1_000_000
_EXAMPLES = (
    ("lore stage run the-tin", "run a scenario offline: no model, no cost"),
    ("lore stage run night-train --seed fog --read-minds", "a fixed seed; also show their thoughts"),
    (
        "lore stage run monday --inject 'Fire drill!' --turns 20",
        "inject a message at the start; or type one while it runs",
    ),
    ("lore stage run ./my.yaml --mind openai:gpt-5-mini", "run your own scenario with a model"),
    ("lore stage run --resume the-tin-4f2a9c", "resume a run after Ctrl-C or a crash"),
    ("lore stage check ./my.yaml", "print every problem of a scenario file"),
)
_NOTES = """\
A run is recorded in your log and can be resumed from it. The same seed with the scripted model
gives the same run. docs/stage.md describes scenario files and the order of turns.
"""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("verb", metavar="VERB", choices=VERBS, help="list the scenarios, check one, or run it")
    parser.add_argument("scenario", metavar="SCENARIO", nargs="*", default=[], help="a name that `lore stage list` shows, or a YAML file")
    parser.add_argument("--seed", metavar="TEXT", help="topic and random seed (default: one of the scenario's)")
    parser.add_argument("--turns", metavar="N", type=int, help="maximum number of turns (default: the scenario's)")
    parser.add_argument("--inject", metavar="TEXT", action="append", default=[], help="a visitor's message at the start; may be repeated")
    parser.add_argument("--mind", metavar="ADDRESS", help="model of all agents: scripted:, openai:MODEL, anthropic:MODEL")
    parser.add_argument("--read-minds", action="store_true", help="also show thoughts")
    parser.add_argument("--resume", metavar="RUN", help="resume an unfinished run")
    parser.add_argument("--speed", metavar="X", type=float, help="2 is twice as fast, 0 without pauses (1 on a terminal, else 0)")
    arguments.add_json(parser, "print each event as JSON, as `lore events --json` does; thoughts only with --read-minds")
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Run the verb."""
    if args.verb != "run":
        for name in ("seed", "turns", "mind", "resume", "speed"):
            if getattr(args, name) is not None:
                raise UsageError(f"--{name} is for `lore stage run`")
        if args.inject or args.read_minds:
            raise UsageError(f"--{'inject' if args.inject else 'read-minds'} is for `lore stage run`")
    return {"list": _list_scenarios, "check": _check_scenarios, "run": _run_scenario}[args.verb](args)


# --- list and check


def _list_scenarios(args: Namespace) -> int:
    from fleetlore.stage import files

    if args.scenario:
        raise UsageError("`lore stage list` takes no scenario; use `lore stage check` for one")
    scenarios = [files.load_scenario(name) for name in files.list_scenario_names()]
    waiting = _find_unfinished(args)
    if args.json:
        shown = [{"name": each.name, "title": each.title, "about": each.about, "seeds": each.seeds} for each in scenarios]
        terminal.print_value({"scenarios": shown, "unfinished": [event.run for event in waiting]})
        return OK
    for each in scenarios:
        terminal.print_line(f"{each.name:<12}  {each.about}")
    for event in waiting:
        what = terminal.sanitise_text(f"{event.run} ({event.text}, {event.data.get('seed')})")
        terminal.print_line(f"not finished: {what}; resume with: lore stage run --resume {terminal.sanitise_text(event.run or '')}")
    return OK


def _find_unfinished(args: Namespace) -> Sequence[Event]:
    """The first events of unfinished runs; none if there is no log yet."""
    from fleetlore.stage.resume import find_unfinished_runs

    settings = open_log.load_settings_for(args)
    path = open_log.find_file(settings)
    if path is not None and not os.path.exists(path):
        return ()
    with open_log.open_existing_log(args, settings=settings) as log:
        return find_unfinished_runs(log)


def _check_scenarios(args: Namespace) -> int:
    from fleetlore.stage import files as stage_files

    for place in args.scenario or stage_files.list_scenario_names():
        scenario = stage_files.load_scenario(place)
        cast = ", ".join(f"{manifest.name} ({manifest.role})" for manifest in scenario.cast)
        if args.json:
            terminal.print_value({"scenario": scenario.name, "ok": True, "cast": [manifest.name for manifest in scenario.cast]})
        else:
            terminal.print_line(
                terminal.sanitise_text(f"{place}: valid. {scenario.title}; {cast}; {scenario.governor.max_turns} turns at most")
            )
    return OK


# --- run


def _run_scenario(args: Namespace) -> int:
    _check_arguments(args)
    settings = open_log.load_settings_for(args)
    prompt_settings, nearness = _prompt_settings(settings.context.value)
    with open_log.open_log(args, settings=settings) as log:
        play = _resume_run(args, log) if args.resume else _begin_run(args, log)
        try:
            asyncio.run(_run_play(args, log, play, prompt_settings, nearness))
        except KeyboardInterrupt:
            terminal.flush_output()
            terminal.print_error(f"\nstopped. Resume with: {_resume_command(args, play.run)}")
            return INTERRUPTED
    return OK


def _prompt_settings(settings: Mapping[str, Any]) -> tuple[PromptSettings, Nearness | None]:
    """The prompt settings; `Invalid` before the run starts if a tokenizer or nearness is not installed."""
    from fleetlore.prompts.build import find_tokenizer
    from fleetlore.prompts.embeddings import SHARED_WORDS, find_nearness
    from fleetlore.prompts.turn import PromptSettings

    prompt_settings = PromptSettings.from_settings(settings)
    find_tokenizer(prompt_settings.tokenizer)
    return prompt_settings, find_nearness(settings.get("nearness", SHARED_WORDS))


def _check_arguments(args: Namespace) -> None:
    if len(args.scenario) > 1:
        raise UsageError("only one scenario can run at a time; name one, as in `lore stage run the-tin`")
    if not args.scenario and not args.resume:
        raise UsageError("a scenario is missing, as in `lore stage run the-tin`; `lore stage list` lists them")
    if args.resume and (args.seed is not None or args.turns is not None):
        raise UsageError("--resume keeps the seed and turns of the run; omit --seed and --turns")
    if args.turns is not None and not 1 <= args.turns <= MAX_TURNS:
        raise Invalid(f"--turns must be between 1 and {MAX_TURNS:,}")
    if not all(text.strip() for text in args.inject):
        raise Invalid("--inject needs a text")
    if args.speed is not None and not 0 <= args.speed < float("inf"):
        raise Invalid("--speed must be 0 or more; 2 is twice as fast")


def _begin_run(args: Namespace, log: BlockingRecorder) -> RunState:
    from fleetlore.stage import files as stage_files
    from fleetlore.stage.resume import find_unfinished_runs
    from fleetlore.stage.run_state import create_run_state
    from fleetlore.stage.seeded_random import pick_option

    scenario = stage_files.load_scenario(args.scenario[0])
    if args.turns is not None:
        scenario = replace(scenario, governor=replace(scenario.governor, max_turns=args.turns))
    for event in find_unfinished_runs(log):
        if event.data.get("scenario") == scenario.name:
            terminal.print_error(f"an earlier run of this scenario is unfinished; resume it with: {_resume_command(args, event.run or '')}")
            break
    mark = clock.uuid7()
    return create_run_state(
        scenario, f"{scenario.name}-{mark[-6:]}", args.seed if args.seed is not None else pick_option(scenario.seeds, mark)
    )


def _resume_run(args: Namespace, log: BlockingRecorder) -> RunState:
    from fleetlore.stage import files as stage_files
    from fleetlore.stage.resume import resume_run

    scenario: StageScenario | None = stage_files.load_scenario(args.scenario[0]) if args.scenario else None
    return resume_run(log, args.resume, scenario=scenario)


def _resume_command(args: Namespace, run: str) -> str:
    log = f" --log {config.mask_url(args.log)}" if args.log else ""
    mind = f" --mind {args.mind}" if args.mind else ""
    return f"lore stage run --resume {run}{mind}{log}"


async def _run_play(
    args: Namespace, log: BlockingRecorder, play: RunState, prompt_settings: PromptSettings, nearness: Nearness | None
) -> None:
    from fleetlore.cli.stage.screen import make_viewer
    from fleetlore.log.async_recorder import Recorder
    from fleetlore.projections.runner import SAVE_AFTER
    from fleetlore.projections.store import open_store
    from fleetlore.prompts.agent_context import Recall
    from fleetlore.stage.actors import open_stage_models
    from fleetlore.stage.conductor import Conductor

    speed = args.speed if args.speed is not None else float(terminal.is_terminal(sys.stdout) and not args.json)
    watch: StageEventCallback = make_viewer(play.scenario, json=args.json, read_minds=args.read_minds, speed=speed)
    info = log.info()
    store = open_store(info) if info.events >= SAVE_AFTER or info.trimmed_before is not None else None
    async with open_stage_models(play.scenario, args.mind) as models, AsyncExitStack() as stack:
        if store is not None:  # a long log: use saved folds
            stack.enter_context(store)
        recorder = Recorder.from_blocking(log)
        stack.push_async_callback(recorder.close)
        conductor = Conductor(
            recorder, play, models, recall=Recall(log, store=store, nearness=nearness), prompt_settings=prompt_settings, on_event=watch
        )
        await conductor.load_or_start_run()
        if play.finished is not None:
            raise Invalid(f"{play.run} has ended; read it with `lore events --scope run:{play.run}`")
        for text in args.inject:
            await conductor.inject_message(text)
        with _TypedLines(conductor, quiet=args.json):
            await conductor.run_to_end()
    if not args.json:
        _print_hint(args, play)


class _TypedLines:
    """Reads lines typed during a run; each is injected as a visitor's message."""

    def __init__(self, conductor: Conductor, *, quiet: bool) -> None:
        self._conductor = conductor
        self._is_active = not quiet and terminal.is_terminal(sys.stdin) and terminal.is_terminal(sys.stdout) and _is_in_foreground()
        self._tasks: set[asyncio.Task[Any]] = set()

    def __enter__(self) -> None:
        if self._is_active:
            asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._read_line)

    def __exit__(self, *_: object) -> None:
        if self._is_active:
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())

    def _read_line(self) -> None:
        line = os.read(sys.stdin.fileno(), 4096).decode(errors="replace").strip()
        if line:
            self._start_task(self._conductor.inject_message(line))

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(_ignore_refusals(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _ignore_refusals(work: Coroutine[Any, Any, None]) -> None:
    with suppress(Invalid, LogError):
        await work


def _is_in_foreground() -> bool:
    """Whether this process is in the foreground; reading the terminal in the background would stop it."""
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except OSError:
        return False


def _print_hint(args: Namespace, play: RunState) -> None:
    if (args.log or "").startswith("memory:"):
        return  # the log is closed
    log = f" --log {config.mask_url(args.log)}" if args.log else ""
    terminal.print_error(
        f"lore context --agent {play.scenario.cast[0].name} --run {play.run}{log}  shows what one agent knew; see docs/stage.md"
    )
