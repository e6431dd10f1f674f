"""The demo's scenes in which driver, stage and town really run: agents are scripts, everything else is as it always is."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import SubprocessError
from threading import Thread
from typing import TYPE_CHECKING, NamedTuple

from fleetlore.cli import demo_goals, demo_town
from fleetlore.cli.demo_ground import Ground, Stopped, Teller
from fleetlore.errors import FleetloreError

if TYPE_CHECKING:
    from fleetlore.config import Settings

PLAYS = ("night-train", "the-tin", "monday")
STAGE_SPEED = 2.0
"""How much faster a play goes on than it is read in a terminal."""
JOIN_SECONDS = 5.0


class Scene(NamedTuple):
    """One part of the demo."""

    page: str
    """Where it is seen."""
    about: str
    acts: tuple[Callable[[Ground], None], ...] = ()
    """What really runs for it, beside each other."""


def _plays(ground: Ground) -> None:
    for name in PLAYS:
        ground.tell("stage", f"the curtain rises: {name}")
        play = ground.lore("stage", "run", name, "--speed", f"{STAGE_SPEED * ground.speed:g}")
        if ground.end_of(play):
            raise play.failure()
        ground.tell("stage", f"{name} is over")
        ground.rest(5 / ground.speed)


SCENES = {
    "fleet": Scene("fleet", "five scripted agents, their story and what they do afterwards"),
    "goal": Scene("goals", "a goal that is killed and resumed, and one that needs you", (demo_goals.tide, demo_goals.notice)),
    "stage": Scene("stage", "a cast plays The 23:40 to Varnholt", (_plays,)),
    "town": Scene("town", "four agents on a mission; one of two workers dies", (demo_town.mission,)),
}


_TRY = (
    ("lore decide", "what agents wait to be allowed; kaya does"),
    ("lore goal list", "every goal; lore goal show ID has its turns, evidence and budgets"),
    ("lore town status --watch", "agents, tasks and missions"),
    ("lore tell", "all of it as a story"),
)


def programme(
    names: Sequence[str], url: str, log: str, town: str | None, *, key: str | None = None, path: str | None = None
) -> Iterator[str]:
    """What is on show and where, and what to try. `key`: an address that may also write; `path`: where `lore` is, if no shell knows."""
    yield ""
    for name in names:
        yield f"  {name:<5}  {url + SCENES[name].page:<34}  {SCENES[name].about}"
    yield f"  talk   {url + 'agent':<34}  an agent made of nodes: say something to it"
    yield ""
    yield "The slider at the foot of every page goes back in time."
    yield f"To press buttons and to talk, open {key}" if key else "Buttons and talk need the token, which --open brings along."
    yield "In another terminal, try:"
    if path is not None:
        yield f"  export PATH={shlex.quote(path)}:$PATH"
    yield f"  export FLEETLORE_LOG={shlex.quote(log)}" + (f" FLEETLORE_TOWN={shlex.quote(town)}" if town else "")
    for command, what in _TRY:
        yield f"  {command:<26}  {what}"
    yield ""


@contextmanager
def playing(names: Sequence[str], settings: Settings, *, speed: float, teller: Teller) -> Iterator[None]:
    """Have scenes play in threads, from the first line of the block to the last; nothing of them is left then."""
    with tempfile.TemporaryDirectory(prefix="fleetlore-demo-", ignore_cleanup_errors=True) as folder:
        ground = Ground(Path(folder), settings, speed=speed, teller=teller)
        threads = [Thread(target=_play, args=(ground, name, act), daemon=True) for name in names for act in SCENES[name].acts]
        try:
            for thread in threads:
                thread.start()
            yield
        finally:
            ground.end()
            for thread in threads:
                if thread.ident is not None:  # Ctrl-C may come before all have begun
                    thread.join(JOIN_SECONDS)


def _play(ground: Ground, name: str, act: Callable[[Ground], None]) -> None:
    try:
        act(ground)
    except Stopped:
        return
    except (FleetloreError, OSError, SubprocessError) as error:
        if not ground.stopping.is_set():
            ground.tell(name, f"this scene ends here: {error}")
