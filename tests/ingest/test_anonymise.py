"""What a log is not to hold: prompts, code, paths, names."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec import inspect

from fleetlore import Event, connect
from fleetlore.events import catalog, codec
from fleetlore.events.envelope import Cut, Origin
from fleetlore.ingest import ship_filter_rules as rules
from fleetlore.ingest.anonymise import anonymise_event, make_anonymiser
from fleetlore.ingest.ship_filter import withhold_private
from fleetlore.settings import REDACT_LEVELS
from tests.strategies import events

ONLY = {
    "prompts": rules.WithholdPolicy(prompts=True, code=False, titles=True),
    "code": rules.WithholdPolicy(prompts=False, code=True, titles=True),
}
PATH_FIELDS = ("cwd", "project", "paths", "file_path", "transcript_path", "files", "worktree", "notebook_path", "output_file")
NAME_FIELDS = ("person", "host", "user", "email", "author", "hostname", "branch")
SAMPLES = ("00000000-0000-4000-8000-000000000000", "1h 30m", "2026-11-15T20:00:00Z")


def filled(kind: inspect.Type, secret: str, is_wanted: Any, path: str = "") -> Any:
    """Data of a type in which every part is there, with the secret wherever it is wanted and something harmless elsewhere."""
    match kind:
        case inspect.StructType():
            tag = {kind.tag_field: kind.tag} if kind.tag_field is not None else {}
            return tag | {field.encode_name: filled(field.type, secret, is_wanted, f"{path}.{field.encode_name}") for field in kind.fields}
        case inspect.UnionType():
            return filled(next(one for one in kind.types if not isinstance(one, inspect.NoneType)), secret, is_wanted, path)
        case inspect.VarTupleType() | inspect.ListType():
            return [filled(kind.item_type, secret, is_wanted, path)]
        case inspect.DictType():
            return {"part": secret if is_wanted(path) else "x"} if isinstance(kind.value_type, inspect.AnyType) else {}
        case inspect.StrType(pattern=str(pattern)):
            return next(sample for sample in SAMPLES if re.match(pattern, sample))
        case inspect.LiteralType():
            return kind.values[0]
        case inspect.StrType() | inspect.AnyType():
            return secret if is_wanted(path) else "x"
        case inspect.IntType():
            return kind.ge or 1
        case inspect.FloatType():
            return 1.5
        case _:
            return True


def planted(kind: str, secret: str, is_wanted: Any, **more: Any) -> Event:
    data = filled(inspect.type_info(catalog.known_kinds()[kind]), secret, lambda path: is_wanted(path.removeprefix(".")))
    catalog.check_payload(kind, data | more)
    return Event(
        kind=kind,
        actor="ada",
        agent="ada",
        text=f"it says: {secret}",
        data=data | more,
        origin=Origin(dialect="nexo", rest={"was": secret}),
    )


def written(event: Event) -> str:
    return codec.encode_event(event).decode()


def held(kind: str, level: str) -> set[str]:
    return {path for path, how in rules.find_rules(kind, ONLY[level]).items() if how != "hide_messages"}


@pytest.mark.parametrize(("kind", "level"), [(kind, level) for kind in sorted(rules.WITHHOLD_RULES) for level in ONLY if held(kind, level)])
def test_no_words_of_a_ruled_field_survive_their_level(kind: str, level: str) -> None:
    event = planted(kind, "zebra crossing", lambda path: path in held(kind, level))
    left = anonymise_event(event, {level})
    catalog.check_payload(kind, left.data)
    assert "zebra" not in written(left)
    assert "[withheld" in written(left)
    assert left.origin is not None
    assert left.origin.redacted > 0


@pytest.mark.parametrize("kind", catalog.known_kinds())
def test_no_path_survives_paths(kind: str) -> None:
    secret = "/srv/zebra/quagga okapi/gnu.py"
    more = {name: secret for name in PATH_FIELDS if name not in catalog.known_kinds()[kind].__struct_fields__}
    event = planted(kind, secret, lambda path: path.rpartition(".")[2] in PATH_FIELDS, **more)
    left = anonymise_event(event, {"paths"})
    catalog.check_payload(kind, left.data)
    assert not re.search("zebra|quagga|okapi|gnu", written(left))
    assert kind == "log.rejected" or ".py" in written(left)
    assert anonymise_event(left, {"paths"}) == left


@pytest.mark.parametrize("kind", catalog.known_kinds())
def test_no_name_survives_names(kind: str) -> None:
    secret = "zebra-quagga"
    more = {name: secret for name in NAME_FIELDS if name not in catalog.known_kinds()[kind].__struct_fields__}
    event = planted(kind, secret, lambda path: path.rpartition(".")[2] in NAME_FIELDS, **more)
    left = anonymise_event(event, {"names"})
    catalog.check_payload(kind, left.data)
    assert "zebra" not in written(left)
    assert anonymise_event(left, {"names"}) == left


# Shrinking takes minutes, and what fails is read as easily as it comes.
@settings(
    max_examples=60, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate), suppress_health_check=[HealthCheck.too_slow]
)
@given(event=events(), levels=st.sets(st.sampled_from(REDACT_LEVELS), min_size=1))
def test_who_when_and_what_stay_and_a_second_veil_changes_nothing(event: Event, levels: set[str]) -> None:
    once = anonymise_event(event, levels)
    assert anonymise_event(once, levels) == once
    same = ("id", "at", "kind", "cause", "trace", "visibility", "v")
    assert [getattr(once, name) for name in same] == [getattr(event, name) for name in same]
    catalog.check_payload(once.kind, once.data)
    assert codec.decode_event(codec.encode_event(once)) == once
    if not levels & {"paths", "names"}:
        assert (once.actor, once.agent, once.run) == (event.actor, event.agent, event.run)


def test_without_a_level_nothing_is_touched() -> None:
    event = Event(kind="prompt.submitted", agent="ada", text="hello", origin=Origin(dialect="x", rest=1))
    assert anonymise_event(event, ()) is event


TOOL = Event(
    kind="tool.called", actor="ada", agent="ada", run="r1", text="Bash: cat /home/ann/plans/secret.md",
    data={
        "tool": "Bash", "input": {"command": "cat /home/ann/plans/secret.md", "description": "Read the plan"},
        "cwd": "/home/ann", "deed": "look",
    },
)  # fmt: skip


def test_prompts_leave_the_command_and_take_what_the_model_says_of_it() -> None:
    data = anonymise_event(TOOL, {"prompts"}).data
    assert data["input"] == {"command": "cat /home/ann/plans/secret.md", "description": "[withheld: 13 bytes]"}


def test_code_leaves_the_action_and_the_folder() -> None:
    left = anonymise_event(TOOL, {"code"})
    assert (left.text, left.data) == (
        None,
        {"tool": "Bash", "input": {"withheld": "[withheld: 73 bytes]"}, "cwd": "/home/ann", "deed": "look"},
    )


def test_one_path_has_one_pseudonym_wherever_it_stands() -> None:
    left = anonymise_event(TOOL, {"paths"})
    [name] = set(re.findall(r"path-\w{8}\.md", written(left)))
    assert left.text == f"Bash: cat {name}"
    other = anonymise_event(
        Event(kind="tool.returned", agent="bo", data={"tool": "Edit", "paths": ["/home/ann/plans/secret.md"]}), {"paths"}
    )
    assert other.data["paths"] == [name]


def test_the_line_of_a_tool_may_name_a_file_of_which_the_event_says_no_more() -> None:
    left = anonymise_event(Event(kind="tool.returned", agent="ada", text="Read: zebra.py", data={"tool": "Read"}), {"paths"})
    assert re.fullmatch(r"Read: path-\w{8}\.py", left.text or "")
    assert anonymise_event(left, {"paths"}) == left


def test_the_name_of_a_file_alone_is_known_by_its_path() -> None:
    event = Event(kind="tool.called", agent="ada", text="Edit: lexer.py", data={"tool": "Edit", "input": {"file_path": "/w/src/lexer.py"}})
    left = anonymise_event(event, {"paths"})
    assert left.text == f"Edit: {left.data['input']['file_path']}"


@pytest.mark.parametrize(
    "words",
    [
        "see https://example.org/a/b.html",
        "either/or",
        "openai/gpt-4.1",
        "on 15/11/2026",
        "claude-code/ab12cd34",
        "half of 1/2",
        "feature/login",
    ],
)
def test_what_only_looks_like_a_path_stays(words: str) -> None:
    assert anonymise_event(Event(kind="fleet.idle", agent="claude-code/ab12cd34", text=words), {"paths"}).text == words


@pytest.mark.parametrize(
    "words",
    [
        "at /opt/zebra:12", "~/zebra", "'/opt/a b/zebra'", "./zebra", "src/zebra/x", "zebra/x.py", "lib/zebra/", "-I/opt/zebra",
        "$HOME/zebra", "C:\\zebra\\x", "file:///opt/zebra", "--out=/opt/zebra", "/opt/(zebra)/page.tsx",
    ],
)  # fmt: skip
def test_paths_are_found_in_the_middle_of_words(words: str) -> None:
    assert "zebra" not in (anonymise_event(Event(kind="fleet.idle", agent="ada", text=words), {"paths"}).text or "")


def test_a_person_has_one_pseudonym_and_agents_keep_their_names() -> None:
    prompt = anonymise_event(Event(kind="prompt.submitted", actor="ann", agent="ada", text="ann asks ada"), {"names"})
    session = anonymise_event(
        Event(kind="session.started", agent="ada", data={"person": "ann", "host": "box7", "cwd": "/home/ann/w"}), {"names"}
    )
    assert prompt.actor == session.data["person"]
    assert (prompt.agent, prompt.text) == ("ada", f"{prompt.actor} asks ada")
    assert session.data["cwd"] == f"/home/{prompt.actor}/w"
    assert session.data["host"].startswith("host-")


def test_the_authors_of_commits_are_people() -> None:
    commit = Event(kind="fleet.commit", actor="Ann Lee", agent="Ann Lee", data={"email": "ann@example.org"}, origin=Origin(dialect="git"))
    left = anonymise_event(commit, {"names"})
    assert left.agent == left.actor
    assert not re.search("ann", written(left), re.IGNORECASE)


SAID = "a zebra has eaten it"
FORGE, GIT, BEADS = Origin(dialect="forge"), Origin(dialect="git"), Origin(dialect="beads")


@pytest.mark.parametrize(
    ("level", "event"),
    [
        ("prompts", Event(kind="work.task_created", text=SAID, data={"title": SAID, "description": SAID}, origin=FORGE)),
        ("prompts", Event(kind="fleet.pr_open", agent="ann", text=SAID, data={"title": SAID, "number": 2}, origin=FORGE)),
        ("prompts", Event(kind="fleet.dispatch", agent="ann", text="zebra", data={"title": "zebra"}, origin=FORGE)),
        ("prompts", Event(kind="fleet.abandon", agent="ann", text=SAID, data={"title": SAID}, origin=FORGE)),
        ("prompts", Event(kind="work.review_rejected", agent="ann", text=SAID, data={"reason": SAID}, origin=FORGE)),
        ("prompts", Event(kind="work.cancelled", agent="ann", text="x", data={"reason": SAID}, origin=FORGE)),
        ("prompts", Event(kind="work.updated", text=SAID, data={"type": "label_added"}, origin=BEADS)),
        ("prompts", Event(kind="codex.new_thing", text=SAID, data={"status": SAID}, origin=Origin(dialect="codex"))),
        ("prompts", Event(kind="session.waiting", text="x", data={"why": SAID}, origin=Origin(dialect="codex"))),
        ("prompts", Event(kind="session.waiting", text=SAID, data={"why": "permission"}, origin=Origin(dialect="codex"))),
        ("code", Event(kind="session.waiting", text="rm zebra", data={"why": "permission"}, origin=Origin(dialect="codex"))),
        (
            "code",
            Event(kind="tool.denied", text="WebSearch: zebra", data={"tool": "WebSearch", "by": "user"}, origin=Origin(dialect="codex")),
        ),
        ("code", Event(kind="fleet.commit", agent="ann", text=SAID, data={"sha": "0a1b2c3"}, origin=GIT)),
        ("code", Event(kind="fleet.error", agent="ann", text=SAID, data={"sha": "0a1b2c3"}, origin=GIT)),
        ("code", Event(kind="fleet.commit", agent="ann", text=SAID, data={"sha": "0a1b2c3"}, origin=FORGE)),
    ],
)
def test_titles_descriptions_and_subjects_are_words_too(level: str, event: Event) -> None:
    left = anonymise_event(event, {level})
    assert "zebra" not in written(left)
    assert left.origin is not None
    assert left.origin.redacted
    assert anonymise_event(left, {level}) == left


def test_the_title_that_a_person_gave_a_session_goes_and_a_name_given_here_stays() -> None:
    event = Event(kind="agent.named", agent="claude-code/ab12cd34", text=SAID, data={"name": SAID}, origin=Origin(dialect="claude_code"))
    assert "zebra" not in written(anonymise_event(event, {"prompts"}))
    own = Event(kind="agent.named", agent="claude-code/ab12cd34", data={"name": "release manager"})
    assert anonymise_event(own, {"prompts"}) == own


def test_where_something_was_cut_is_reported_without_paths() -> None:
    cut = Cut(path="$.data.changes./home/ann/zebra.py", bytes=9, sha256="0" * 64)
    event = Event(kind="codex.changed", agent="ada", task="C:\\zebra\\x", origin=Origin(dialect="codex", cut=(cut,), rest={}))
    assert "zebra" not in written(anonymise_event(event, {"paths"}))


def test_what_is_shipped_keeps_its_titles() -> None:
    event = Event(kind="work.task_created", text=SAID, data={"title": SAID, "description": SAID}, origin=FORGE)
    assert withhold_private(event) == event


@pytest.mark.parametrize(
    "data",
    [
        {"tool": "Read", "subject": "zebra.ex"},
        {"tool": "Bash", "subject": "pytest tests/zebra: 3 failed"},
        {"tool": "Glob", "input": {"pattern": "zebra.exs"}},
        {"tool": "Bash", "output": "a.py\nzebra.py\n"},
        {"tool": "Bash", "input": {"command": "sed -n 1p app/(zebra)/page.tsx; cat app/\\(zebra\\)/x.ts"}},
        {"tool": "Bash", "input": {"command": "find apps -name zebra.tsx"}},
    ],
)
def test_no_file_that_a_tool_was_about_survives_paths(data: dict[str, Any]) -> None:
    left = anonymise_event(Event(kind="tool.returned", agent="ada", data=data), {"paths"})
    assert "zebra" not in written(left)
    assert anonymise_event(left, {"paths"}) == left


@pytest.mark.parametrize("words", ["written in Node.js", "calls zebra.py(x)", "version 2.12.1 is out", "see e.g. this"])
def test_what_only_looks_like_a_file_stays(words: str) -> None:
    assert anonymise_event(Event(kind="fleet.idle", agent="ada", text=words), {"paths"}).text == words


def test_whose_a_repository_is_does_not_survive_names() -> None:
    data = {"url": "https://forge.example/zebra/shop/pulls/2", "branch": "quagga", "check": "lint"}
    event = Event(kind="fleet.error", agent="ann", mission="zebra/shop", text="lint failed on quagga", data=data, origin=FORGE)
    left = anonymise_event(event, {"names"})
    assert "zebra" not in written(left)
    assert "quagga" not in written(left)
    assert left.mission is not None
    assert left.mission.endswith("/shop")
    assert f"/{left.mission}/" in left.data["url"]
    assert anonymise_event(left, {"names"}) == left


@pytest.mark.parametrize(
    "words",
    [
        "drwxr-x--- 4 zebra zebra 4096 Feb 10 22:49 .\n-rw-r--r--  1 zebra staff 12 Feb 10 22:49 a",
        "cat /tmp/-home-zebra-projects-shop/x",
        "~/.claude/projects/-Users-zebra-shop",
    ],
)
def test_the_owner_of_a_folder_does_not_survive_names(words: str) -> None:
    left = anonymise_event(Event(kind="tool.returned", agent="ada", data={"tool": "Bash", "output": words}), {"names"})
    assert "zebra" not in written(left)
    assert anonymise_event(left, {"names"}) == left


def test_users_and_main_branches_are_nobodys() -> None:
    event = Event(kind="session.started", actor="user", agent="ada", data={"branch": "main", "person": "user", "host": "localhost"})
    assert anonymise_event(event, {"names"}) == event


@pytest.mark.parametrize("level", REDACT_LEVELS)
def test_a_line_that_nobody_could_read_is_withheld_at_every_level(level: str) -> None:
    data = {"reason": "not JSON: zebra", "sample": "{zebra", "source": "/home/zebra/x.jsonl", "n": 3}
    left = anonymise_event(Event(kind="log.rejected", actor="lore", text="x.jsonl, line 3: zebra", data=data), {level, "paths"})
    assert "zebra" not in written(left)
    assert left.data["n"] == 3


def test_the_facts_of_the_log_itself_stay_whole() -> None:
    data = {"before": "7", "last": "6", "events": 9, "agents": {"claude-code/ab12cd34": 9}, "counts": {"fleet.idle": 9}, "usd": 0.5}
    fact = Event(kind="log.trimmed", actor="fleetlore", text="trimmed: the oldest 9 events", data=data)
    assert anonymise_event(fact, REDACT_LEVELS) == fact


def test_a_door_with_a_veil_stores_nothing_unveiled() -> None:
    with connect("memory:", anonymise=make_anonymiser(("prompts",))).blocking() as log:
        log.append([Event(kind="prompt.submitted", agent="ada", text="zebra", data={"prompt": "zebra"})])
        [event] = log.read()
    assert (event.text, event.data) == ("[withheld: 5 bytes]", {"prompt": "[withheld: 5 bytes]"})


def test_shipping_holds_back_the_line_that_is_made_of_a_tools_input() -> None:
    def left(text: str, dialect: str) -> str | None:
        data = {"tool": text.partition(":")[0]}
        return withhold_private(Event(kind="tool.returned", agent="ada", text=text, data=data, origin=Origin(dialect=dialect))).text

    assert left("Bash: curl -H 'x: zebra' example.org", "claude_code") is None
    assert left("Edit: parser.py", "claude_code") == "Edit: parser.py"
    assert left("TodoWrite", "claude_code") == "TodoWrite"
    assert left("Grep: zebra", "claude_code") is None, "one word is no file by that alone"
    assert left("36,000 sent, none lost", "fleetlore") == "36,000 sent, none lost"


def test_shipping_holds_back_what_a_model_said() -> None:
    assert withhold_private(Event(kind="model.replied", agent="ada", data={"said": "zebra"})).data == {"said": "[withheld: 5 bytes]"}
