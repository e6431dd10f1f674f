"""A town in the middle of its work, made of the events that dispatchers and workers store: many states at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from fleetlore import Event
from fleetlore.town import commands, mission_commands
from fleetlore.town import events as town_events
from fleetlore.town.commands import TownCommand
from fleetlore.town.plans import load
from fleetlore.views import town as view
from fleetlore.views.town_state import Agent, Task

MISSION = "issue-reader"
HOST = "worker:alpha#3"
PLAN = """
title = "Read the issues of two forges"
id = "issue-reader"
max_parallel = 4

[[items]]
id = "shape"
title = "Agree on the shape of an issue"
type = "design"

[[items]]
id = "gitea"
title = "Read Gitea's issues"
depends_on = ["shape"]
role = "backend"
checks = ["unit"]

[[items]]
id = "github"
title = "Read GitHub's issues"
depends_on = ["shape"]
role = "backend"
checks = ["unit"]

[[items]]
id = "store"
title = "Keep what was read"
depends_on = ["shape"]

[[items]]
id = "page"
title = "A page that lists them"
depends_on = ["shape"]
role = "frontend"

[[items]]
id = "docs"
title = "Tell how it is set up"
depends_on = ["gitea"]

[[items]]
id = "search"
title = "Find issues by their words"
depends_on = ["gitea", "store"]

[[items]]
id = "together"
title = "Test both against recorded answers"
type = "test"
depends_on = ["gitea", "github", "store"]
role = "tester"

[[items]]
id = "load"
title = "Read ten thousand of them"
type = "test"
depends_on = ["store"]

[[items]]
id = "look"
title = "Look at all of it once more"
type = "review"
depends_on = ["together", "page", "search"]

[[items]]
id = "gate"
title = "Merge"
type = "merge_gate"
depends_on = ["look", "load", "docs"]

[[items]]
id = "after"
title = "Write down what is left"
type = "follow_up"
depends_on = ["gate"]
"""
SMALL = """
title = "Quieter logs"
items = [{id = "a", title = "Say less", type = "design"}, {id = "b", title = "Say it once", type = "design", depends_on = ["a"]}]
"""


class TownRecorder:
    """Tells a town's story, a few seconds between two facts, and folds it as it goes."""

    def __init__(self, since: datetime | None = None) -> None:
        self.at = since or datetime.now(UTC) - timedelta(minutes=50)
        self.town = view.initial()
        self.events: list[Event] = []

    def record(self, *events: Event, pause: float = 9.0) -> None:
        for event in events:
            self.at += timedelta(seconds=pause)
            number = len(self.events) + 1
            recorded = replace(event, id=f"00000000-0000-4000-8000-{number:012}", at=self.at)
            self.events.append(recorded)
            self.town = view.apply(self.town, replace(recorded, position=f"{number:020}"))

    def command(self, command: TownCommand) -> None:
        self.record(*command.events)

    def agent(self, name: str) -> Agent:
        return self.town.agents[name]

    def task(self, id: str) -> Task:
        return self.town.tasks[id]

    def joins(self, name: str, *roles: str) -> None:
        self.record(town_events.agent_spawned(name, by="ines", roles=roles, harness="claude-code"))
        self.record(
            town_events.agent_state_changed(name, "cold", "starting", lease=HOST),
            town_events.agent_state_changed(name, "starting", "idle", lease=HOST),
        )

    def begins(self, task: str, agent: str) -> None:
        self.record(town_events.task_assigned(self.task(task), self.agent(agent)), pause=1)
        self.record(town_events.agent_state_changed(agent, "idle", "working", lease=HOST), pause=1)
        self.record(town_events.task_started(self.agent(agent), self.task(task)), pause=1)

    def completes(self, task: str, result: str) -> None:
        agent = self.task(task).agent or ""
        self.record(town_events.task_completed(self.task(task), result=result), pause=70)
        self.record(town_events.agent_state_changed(agent, "working", "idle", lease=HOST), pause=1)

    def fails(self, task: str, error: str) -> None:
        agent = self.task(task).agent or ""
        self.record(town_events.task_failed(self.task(task), error=error), pause=60)
        self.record(town_events.agent_state_changed(agent, "working", "idle", lease=HOST), pause=1)

    def works(self, item: str, task: str, agent: str, *, purpose: str = "work", **more: Any) -> None:
        """An item's task is written down and begun."""
        mission = self.town.missions[MISSION]
        title = mission.items[item].title
        if mission.items[item].state == "pending":
            self.record(town_events.mission_item_event("promoted", mission, mission.items[item], f"{item} is ready"), pause=1)
        self.record(
            town_events.task_created(task, title=title, by=town_events.DISPATCHER, mission=MISSION, item=item, purpose=purpose, **more),
            pause=1,
        )
        self.begins(task, agent)

    def is_done(self, item: str) -> None:
        mission = self.town.missions[MISSION]
        self.record(town_events.mission_item_event("completed", mission, mission.items[item], f"{item} is done"), pause=1)


def all_sorts() -> list[Event]:
    """Agents in every mood, a mission with items of every state, a backlog, messages, and a call for help."""
    tale = TownRecorder()
    for name, role in (("ada", "backend"), ("bram", "backend"), ("cleo", "frontend"), ("dora", "reviewer"), ("emil", "reviewer")):
        tale.joins(name, role)
    for name in ("finn", "gwen", "ivo", "jana"):
        tale.joins(name, *(["tester"] if name == "finn" else []))
    tale.record(town_events.agent_spawned("hugo", by="ines", roles=["backend"]))
    for command in mission_commands.start_mission(tale.town, load.parse_plan(SMALL, "small.toml"), by="ines"):
        tale.command(command)
    for command in mission_commands.start_mission(tale.town, load.parse_plan(PLAN, "plan.toml"), by="ines"):
        tale.command(command)
    _mission(tale)
    _backlog(tale)
    _talk(tale)
    return tale.events


def _mission(tale: TownRecorder) -> None:
    tale.works("shape", "w-shape", "gwen")
    tale.completes("w-shape", "An issue is a number, a title, a body and labels; see DESIGN.md.")
    tale.is_done("shape")
    tale.works("gitea", "w-gitea", "ada", roles=["backend"], checks=["unit"])
    tale.works("github", "w-github", "bram", roles=["backend"], checks=["unit"])
    tale.completes("w-gitea", "Reads lists, single issues and deliveries; octo/reader#41.")
    tale.works("gitea", "r-gitea", "dora", purpose="review", of="w-gitea", not_by=["ada"])
    tale.completes("w-github", "Reads them, pages included.")
    tale.works("github", "r-github", "emil", purpose="review", of="w-github", not_by=["bram"])
    tale.record(town_events.review_approved(tale.task("r-gitea"), "dora", "Clear, and tested.", author="ada"))
    tale.completes("r-gitea", "approved: clear, and tested")
    tale.is_done("gitea")
    tale.record(town_events.review_rejected(tale.task("r-github"), "emil", "The second page is read twice.", author="bram"))
    tale.completes("r-github", "rejected: the second page is read twice")
    tale.works("github", "f-github", "bram", purpose="fix", of="w-github", round=1, roles=["backend"])
    tale.works("store", "w-store", "ada")
    tale.works("page", "w-page", "cleo", roles=["frontend"])
    tale.completes("w-page", "A list with filters; octo/reader#44")
    tale.works("page", "r-page", "dora", purpose="review", of="w-page", not_by=["cleo"])
    tale.works("docs", "w-docs", "gwen")
    for _ in range(2):
        tale.fails("w-docs", "the workspace has no docs folder")
        tale.begins("w-docs", "gwen")
    tale.fails("w-docs", "the workspace has no docs folder")
    mission = tale.town.missions[MISSION]
    tale.record(town_events.mission_noted(MISSION, "Prefer recorded answers; ask no server.", by="ines"))
    tale.record(town_events.mission_help_needed(mission, "docs was tried 3 times: the workspace has no docs folder", 1))


def _backlog(tale: TownRecorder) -> None:
    def add(id: str, title: str, **more: Any) -> None:
        tale.command(commands.add_task(tale.town, title, by="ines", id=id, **more))

    add("t-login", "Sign-in fails for names with an umlaut", priority="urgent", roles=["backend"])
    add("t-cache", "Forget the cache when the key changes", priority="high")
    add("t-words", "Say 'sign in' everywhere, not 'log in'", priority="low")
    add("t-types", "Types for the last three modules", depends_on=["t-cache"])
    add("t-flaky", "The clock test fails on Mondays", tries=1, roles=["tester"])
    add("t-old", "Support the old export")
    add("t-icons", "New icons for the rail", agent="cleo")
    tale.begins("t-flaky", "finn")
    tale.fails("t-flaky", "exit 1: expected Monday, found Tuesday")
    tale.command(commands.cancel_task(tale.town, "t-old", by="ines", reason="nobody uses it"))
    tale.record(town_events.agent_failed(tale.agent("finn"), error="its program was not found: pytest", new_state="error"))
    tale.record(town_events.agent_interrupted(tale.agent("ivo"), reason="Ines wants to look first"))
    tale.record(town_events.agent_stopped(tale.agent("jana"), reason="closed"))


def _talk(tale: TownRecorder) -> None:
    question = "The token for the recorded answers has expired. May I record new ones against the test server?"
    tale.command(
        commands.send_message(tale.town, "conductor", question, by="ada", type="query", priority="high", task="w-store", mission=MISSION)
    )
    tale.command(commands.send_message(tale.town, "bram", "The paging code is in pages.py now.", by="ada"))
    tale.command(commands.send_message(tale.town, "bram", "Stop: the fixture is wrong, I am mending it.", by="emil", priority="urgent"))
    tale.command(commands.control_agent(tale.town, "emil", "drain", by="ines"))
