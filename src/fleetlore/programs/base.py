"""`Program`: describes one coding-agent product, such as Claude Code or Codex.

Each agent has a subclass that describes it (`claude_code/program.py`, `codex/program.py`, or a class in an installed package) and one
instance, which `registry.py` finds by name. The parts (transcript reader, hooks, harness, …) are imported when they are asked for,
because most commands need one of them or none. A part that an agent does not have is `None`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from fleetlore.dialects.otlp.logs import ProgramTelemetry
    from fleetlore.dialects.recording import Recording
    from fleetlore.dialects.wire import Record
    from fleetlore.events.envelope import Event
    from fleetlore.events.goal_plan import Plan
    from fleetlore.programs.harness import Harness
    from fleetlore.programs.hook_settings import HookFile
    from fleetlore.programs.normalised import ToolCallReader
    from fleetlore.programs.prompt_history import PromptHistory

HarnessFactory: TypeAlias = "Callable[[Plan, Mapping[str, str]], Harness]"
"""Called with the goal's plan and the environment."""

SESSION_KEYS = ("session_id", "thread_id", "thread-id", "conversation_id")
"""Keys under which the hook records of coding agents may hold the session id."""


class Program:
    """One coding agent."""

    name: str
    """Its name in commands and goals: `claude-code`. Each of its sessions is an agent named `NAME/ID`."""
    title: str
    """Its name for people: `Claude Code`."""
    command: str
    """The executable that people start."""

    home: str
    """The folder of its files: `~/.claude`."""
    home_variable: str = ""
    """The environment variable that names another folder."""
    recordings: tuple[str, ...] = ("sessions",)
    """The folders or files within `home` that hold its transcripts, the main one first."""
    side_files: str = ""
    """A regular expression for names of files that are not transcripts and are skipped silently."""
    side_folders: frozenset[str] = frozenset()
    """Names of folders among the transcripts whose files are skipped silently."""

    live_folders: tuple[str, ...] = ()
    """The folders within `home` in which it keeps the state of running sessions."""

    deletes: str = ""
    """Which of its own files it deletes, and when, as text for `lore doctor`."""
    install_note: str = ""
    """Instructions for the user after hooks were installed."""
    asks_at_gate: bool = False
    """Whether its harness asks `TurnRequest.gate` for permission before it uses a tool."""
    chooses_sessions: bool = False
    """Whether the program chooses the id of a new session. Otherwise it is `TurnRequest.new_session`, if the harness has sessions."""

    @property
    def dialect(self) -> str:
        """`origin.dialect` of its events, and the first word of its own kinds: `claude_code`."""
        return self.name.replace("-", "_")

    def find_home(self, environ: Mapping[str, str] = os.environ) -> str:
        """The folder of its files, which may not exist."""
        return (environ.get(self.home_variable) if self.home_variable else None) or os.path.expanduser(self.home)

    def recording_folders(self, environ: Mapping[str, str] = os.environ) -> list[str]:
        """The folders or files of its transcripts, which may not exist."""
        home = self.find_home(environ)
        return [os.path.join(home, *name.split("/")) for name in self.recordings]

    def load_recording(self) -> Recording:
        """The reader of its transcripts (also called recordings). The reader's name must equal `dialect`."""
        raise NotImplementedError(f"{type(self).__name__} has no transcript reader")

    def recognises(self, record: Record) -> bool:
        """Whether a record of a file can only be from this program's transcripts. Used to detect that the user named the wrong program."""
        return False

    def load_prompt_history(self) -> PromptHistory | None:
        """The reader of the file that keeps prompts longer than the transcripts of their sessions."""
        return None

    def helper_folders(self, path: str) -> Sequence[str]:
        """Folders with the transcripts of sub-agents that the session of a transcript started."""
        return ()

    def find_related(self, path: str, head: bytes) -> Iterable[str]:
        """Grouping keys of a transcript, from its path and first bytes. Files with a common key share records and are imported together."""
        return ()

    def load_hooks(self) -> ProgramHooks | None:
        """The reader of the records that it passes to `lore hook`."""
        return None

    def hook_file(self, project: str | None = None) -> HookFile | None:
        """The settings file that lists its hooks: the user's, or the one in a project's folder."""
        return None

    def read_live_sessions(self, environ: Mapping[str, str] = os.environ) -> Iterable[LiveSession]:
        """What it says about its running sessions."""
        return ()

    def load_approvals(self) -> ProgramApprovals | None:
        """How it asks for permission through `fleetlore approve-hook`."""
        return None

    def load_harness(self) -> HarnessFactory | None:
        """Creates the harness that runs it for the turns of a goal."""
        return None

    def load_telemetry(self) -> ProgramTelemetry | None:
        """The names and ids of its OpenTelemetry records."""
        return None

    def load_tool_calls(self) -> ToolCallReader | None:
        """The reader that normalises its tool calls to commands, edits, reads and searches. Without it, tools are guessed by name."""
        return None

    def resume_command(self, session: str) -> tuple[str, ...] | None:
        """The command line that continues a session."""
        return None


def find_hook_agents(program: str, record: Mapping[str, Any]) -> list[tuple[str | None, str | None]]:
    """The agents named in a hook's record, each with its session: the session's own agent, and the sub-agent that made the call."""
    sessions = [session for key in SESSION_KEYS if isinstance(session := record.get(key), str)]
    run = sessions[0] if sessions else None
    helper = record.get("agent_id")
    return [*((f"{program}/{session[:8]}", run) for session in sessions), *([(helper, run)] if isinstance(helper, str) else [])]


class LiveSession(NamedTuple):
    """What a program says about one of its running sessions."""

    run: str
    status: str
    """`busy`, `waiting`, `idle`, or `gone` if its process has ended."""
    waiting_for: str | None = None
    pid: int | None = None
    cwd: str | None = None


class PermissionCall(NamedTuple):
    """A call for which a program asks for permission."""

    run: str
    agent: str
    tool: str
    input: Any
    parent: str | None = None
    """The session's own agent, if a sub-agent asks."""
    call_id: str | None = None
    transcript: str | None = None
    """The file that will say how the program's own dialog was answered."""
    can_answer: bool = True
    """False for questions and plans, which are only shown."""


class ProgramApprovals(NamedTuple):
    """How a program asks for permission, and how it is answered."""

    event: str
    """The hook that asks."""
    read: Callable[[Mapping[str, Any]], PermissionCall | None]
    """The call of a hook's record; `None` if the record is not a request."""
    answer: Callable[[str, str], dict[str, Any]]
    """What to print: called with `allow` or `deny`, and the message."""
    is_attended: Callable[[Mapping[str, str]], bool] = lambda environ: False
    """Whether the program shows its own dialog while the hook runs, so that waiting holds up nobody. Called with the hook's environment."""


def answer_permission_request(choice: str, message: str) -> dict[str, Any]:
    """The answer to a PermissionRequest hook, as Claude Code defined it and Codex took it over."""
    decision = {"behavior": "allow"} if choice == "allow" else {"behavior": "deny", "message": message}
    return {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}


class ProgramHooks(NamedTuple):
    """How the calls of an agent's hooks are read."""

    read: Callable[..., list[Event]]
    """`read(record, id=…, at=…)`: the events of one call; `id` and `at` are its id and time of arrival."""
    branch_key: str = ""
    """The record key from which `read` takes the git branch. Hooks do not send it, so the caller adds it from the transcript."""
    branch_steps: frozenset[str] = frozenset()
    """The values of `hook_event_name` to which the branch is added."""
    kinds_without_key: Mapping[str, str] = {}
    """`hook_event_name` → kind, for calls that may lack a prompt id. They are then matched by time to the event in the transcript."""
    expected_recording: Callable[[Mapping[str, Any]], str | None] = lambda record: None
    """The transcript that is written right after this call with more detail. The call waits a moment for it."""
    find_agents: Callable[[str, Mapping[str, Any]], list[tuple[str | None, str | None]]] = find_hook_agents
    """Returns the agents named in a record, each with its session; called with the program's name and the record."""
