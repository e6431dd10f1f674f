"""What each room asks of an extension, and what it makes of one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fleetlore import connect
from fleetlore.dialects import nexus
from fleetlore.dialects.base import Dialect
from fleetlore.dialects.registry import NAMES, GuardedDialect, find_dialect
from fleetlore.dialects.wire import COMPACT, Record
from fleetlore.errors import DialectError, Invalid
from fleetlore.events.envelope import Event
from fleetlore.events.goal_plan import Plan
from fleetlore.events.installed_kinds import check_kinds, combine_version
from fleetlore.goal import harnesses
from fleetlore.graph.registry import REGISTRY
from fleetlore.programs.harness import TurnRequest, TurnResult, Watch
from fleetlore.projections import runner
from fleetlore.projections.runner import Runner, make_view
from fleetlore.projections.store import ProjectionStore
from fleetlore.story.vocabulary import Vocabulary, check_vocabulary_parts
from fleetlore.testing import check_dialect, check_harness
from fleetlore.views import threads
from fleetlore.views.cost_sums import sum_by
from fleetlore.views.costs import Costs
from fleetlore.views.patterns.model import Part, Pattern
from fleetlore.views.town_payloads import is_remote_event
from tests.dialects import golden

SETBACK = Part(frozenset(("setback",)))


# --- dialects


@pytest.mark.parametrize("name", NAMES)
def test_our_own_dialects_pass_the_check_that_others_are_given(name: str) -> None:
    assert check_dialect(find_dialect(name), golden.lines(name)[:5])


def clumsy(read: Callable[[Record], Event], write: Callable[[Event, str], Record | None] = lambda event, town: {}) -> Dialect:
    return Dialect(name="clumsy", style=COMPACT, read=read, write=write)


def stumbles(record: Record) -> Event:
    return Event(kind=record["did"], actor="ada")


def test_whatever_an_extension_stumbles_over_is_a_bad_record() -> None:
    dialect = clumsy(stumbles)
    guarded = GuardedDialect(name=dialect.name, style=dialect.style, read=dialect.read, write=lambda event, town: 1 / 0)  # type: ignore[arg-type,return-value]
    with pytest.raises(DialectError, match="clumsy failed: KeyError: 'did'"):
        guarded.decode(b"{}")
    with pytest.raises(DialectError, match="division by zero"):
        guarded.encode(Event(kind="fleet.idle", actor="ada"))


def test_what_an_extension_reads_never_passes_for_something_that_was_said_here() -> None:
    guarded = GuardedDialect(name="clumsy", style=COMPACT, read=stumbles, write=lambda event, town: {})
    assert is_remote_event(guarded.decode(b'{"did":"log.trimmed"}'))


@pytest.mark.parametrize(
    ("dialect", "complaint"),
    [
        (clumsy(stumbles), "writes another record"),
        (clumsy(lambda record: Event(kind="x.y", actor="ada" if record["did"] else None)), "writes another record"),
        (Dialect(name="nexus", style=COMPACT, read=nexus.DIALECT.read, write=nexus.DIALECT.write), "writes another record"),
    ],
)
def test_the_check_finds_what_is_lost(dialect: Dialect, complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        check_dialect(dialect, ['{"did": "x.y"}' if dialect.name == "clumsy" else golden.lines("nexus")[0]])


def test_the_check_finds_what_falls_over() -> None:
    def read(record: Record) -> Event:
        return Event(kind=f"x.{record['did'].lower()}", actor="ada", origin=nexus.DIALECT.decode(golden.lines("nexus")[0]).origin)

    def write(event: Event, town: str) -> Record | None:
        return {"did": event.kind[2:]} if event.kind.startswith("x.") else None

    with pytest.raises(AssertionError, match=r"raises (KeyError|AttributeError)"):
        check_dialect(clumsy(read, write), ['{"did":"y"}'])


# --- kinds, words and arcs


@pytest.mark.parametrize(
    ("kinds", "complaint"),
    [
        ("kanban.moved", "a mapping"),
        ({"Kanban": "claim"}, "is no kind"),
        ({"kanban.moved": "pause"}, "is not a beat"),
        ({"fleet.pause": "rest"}, "Fleetlore's own"),
    ],
)
def test_kinds_are_dotted_have_a_beat_and_are_none_of_ours(kinds: Any, complaint: str) -> None:
    with pytest.raises((TypeError, ValueError), match=complaint):
        check_kinds(kinds)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ({"phrases": {}}, "Vocabulary is needed"),
        (Vocabulary(phrases={"fleet.commit": (("x",),)}), "Fleetlore's own"),
        (Vocabulary(phrases={"a.b": (("{agent.__class__}",),)}), "a plain name"),
        (Vocabulary(phrases={"a.b": (("{0}",),)}), "a plain name"),
        (Vocabulary(phrases={"a.b": (("{agent!r}",),)}), "a plain name"),
        (Vocabulary(phrases={"a.b": (("{agent",),)}), "expected '}'"),
        (Vocabulary(phrases={"a.b": (("{agent}", "{task}"),)}), "the same fields"),
        (Vocabulary(phrases={"a.b": ((),)}), "at least one variant"),
        (Vocabulary(arcs=(Pattern(kind="solo_sprint", parts=(SETBACK,)),)), "a name of its own"),
        (Vocabulary(arcs=(Pattern(kind="empty", parts=()),)), "at least one part"),
        (Vocabulary(arcs=(Pattern(kind="odd", parts=(Part(frozenset(("panic",))),)),)), "is no sign"),
        (Vocabulary(arcs_told={"unknown": ("x",)}), "none of this vocabulary's"),
        (Vocabulary(arcs=(Pattern(kind="odd", parts=(SETBACK,)),), arcs_told={"odd": ("{text}",)}), "not known of an arc"),
    ],
)
def test_a_vocabulary_that_could_break_a_story_is_refused(words: Any, complaint: str) -> None:
    with pytest.raises((TypeError, ValueError), match=complaint):
        check_vocabulary_parts(words)


def test_what_packages_add_to_a_view_is_in_its_version() -> None:
    one, other = {"kanban.moved": "progress"}, {"kanban.moved": "claim"}
    assert combine_version(7, {}) == 7
    assert len({7, combine_version(7, one), combine_version(7, other), combine_version(8, one)}) == 4
    assert combine_version(7, one) == combine_version(7, dict(one))


# --- nodes and harnesses


def test_a_node_cannot_take_the_place_of_ours() -> None:
    with pytest.raises(Invalid, match="is a built-in node"):
        REGISTRY.node("thinker_v1")


class Falls:
    """A harness that does what it must not."""

    name = "falls"
    has_sessions = False

    async def take_turn(self, order: TurnRequest, watch: Watch) -> TurnResult:
        raise RuntimeError("over its own feet")


async def test_a_harness_that_raises_has_failed_its_turn(tmp_path: Path) -> None:
    ended = await check_harness(harnesses.GuardedHarness("falls", Falls()), str(tmp_path))
    assert (ended.how, ended.error) == ("failed", "RuntimeError: over its own feet")
    with pytest.raises(AssertionError, match="falls raises RuntimeError"):
        await check_harness(Falls(), str(tmp_path))


def test_a_harness_that_nobody_installed_is_named_with_those_that_there_are() -> None:
    with pytest.raises(Invalid, match="no harness is called 'echo'; choose from claude-code, codex, acp, command, mind; install"):
        harnesses.create_harness(Plan(harness="echo", agent="ada"), {})


# --- checkpoints


def test_what_was_folded_with_other_packages_is_folded_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with connect(f"sqlite:{tmp_path}/fleet.db").blocking() as log, ProjectionStore(str(tmp_path / "state.db")) as store:
        [position] = log.append([Event(kind="kanban.card_moved", agent="ada", task="K-1")])
        view = make_view(threads, "threads")
        Runner(log, view, store).keep_checkpoint(position)
        assert Runner(log, view, store).open_fold_run().position == position
        monkeypatch.setattr(runner, "foreign_beats", lambda: {"kanban.card_moved": "progress"})
        assert Runner(log, view, store).open_fold_run().position is None


def test_what_a_view_knows_of_a_trimmed_log_does_not_go_with_a_package_that_it_does_not_heed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    costs = Costs()
    with connect(f"sqlite:{tmp_path}/fleet.db").blocking() as log, ProjectionStore(str(tmp_path / "state.db")) as store:
        spent = Event(kind="model.replied", agent="ada", data={"model": "x", "input": 10, "usd": 0.5})
        first, second = log.append([spent, Event(kind="fleet.idle", agent="bo")])
        Runner(log, make_view(costs, costs.name), store).keep_checkpoint(first)
        log.trim(second)
        monkeypatch.setattr(runner, "foreign_beats", lambda: {"kanban.card_moved": "progress"})
        assert sum_by(Runner(log, make_view(costs, costs.name), store).catch_up().state, "agent").keys() == {"ada"}
