"""Voices: built in, or a user's file with its own phrases. Errors name the file, the key and the reason."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest

from fleetlore.errors import Invalid
from fleetlore.events.envelope import Event
from fleetlore.story.event_sentences import EventDescriber
from fleetlore.story.vocabulary import Vocabulary, check_phrases
from fleetlore.story.voices import load_voice, parse_voice


def described(toml: str, *events: Event) -> list[str]:
    describer = EventDescriber(voice=parse_voice(toml, name="mine.toml"))
    return [describer.describe(event) for event in events]


@pytest.mark.parametrize("folder", ["events", "voices"])
def test_our_own_files_follow_the_rules_for_files_of_users(folder: str) -> None:
    for file in files("fleetlore.story").joinpath("words", folder).iterdir():
        voice = parse_voice(file.read_text("utf-8"), name=file.name)
        assert all(template.endswith((".", ".]")) for templates in voice.phrases.values() for template in templates)
        assert voice.phrases.keys() <= (load_voice("plain").phrases.keys())


def test_a_user_s_file_replaces_phrases_and_the_rest_is_plain(tmp_path: Path) -> None:
    path = tmp_path / "ship.toml"
    path.write_text('[phrases]\n"fleet.commit" = "Aye, {agent} stowed[ {text:quote}]"\n')
    describer = EventDescriber(voice=load_voice(path))
    assert describer.describe(Event(kind="fleet.commit", agent="ada", text="tabs")) == 'Aye, ada stowed "tabs".'
    assert describer.describe(Event(kind="fleet.push", agent="ada")) == "ada pushed."


def test_a_phrase_of_a_kind_replaces_all_its_variants_and_own_variants_can_be_added() -> None:
    test_run = Event(kind="tool.returned", agent="ada", data={"tool": "Bash", "deed": "test"})
    assert described('[phrases]\n"tool.returned" = "{agent} used {tool}"', test_run) == ["ada used Bash."]
    assert described('[phrases]\n"tool.returned/test" = "{agent} tested"', test_run) == ["ada tested."]
    own = '[phrases]\n"ci.build/red" = "Build broken"\n"ci.build" = "Build fine"\n[variants]\n"ci.build" = ["state"]'
    events = [Event(kind="ci.build", actor="ci", data={"state": state}) for state in ("red", "green")]
    assert described(own, *events) == ["Build broken.", "Build fine."]


def test_a_phrase_that_lacks_a_value_falls_back_to_plain() -> None:
    assert described('[phrases]\n"fleet.commit" = "{sha} by {agent}"', Event(kind="fleet.commit", agent="ada", text="x")) == [
        'ada committed "x".'
    ]


@pytest.mark.parametrize(
    ("toml", "reason"),
    [
        ("[phrases", "mine.toml: "),
        ('[words]\nx = "y"', r"mine.toml: \[words\]: unknown section"),
        ('[phrases]\nfleet.commit = "x"', "mine.toml: fleet: .* write them in quotes"),
        ('[phrases]\n"commit" = "x"', "mine.toml: commit: 'commit' is not a kind"),
        ('[phrases]\n"fleet.commit" = []', "mine.toml: fleet.commit: a phrase or a list of phrases is needed"),
        ('[phrases]\n"fleet.commit" = "{agnt}"', r"fleet.commit: \{agnt\}: fleet.commit has no field 'agnt' \(did you mean 'agent'\?\)"),
        ('[phrases]\n"tool.failed" = "{agent} {eror}"', r"\{eror\}: tool.failed has no field 'eror' \(did you mean 'error'\?\)"),
        ('[phrases]\n"fleet.commit" = "{text:qote}"', r"unknown format 'qote' \(did you mean 'quote'\?\)"),
        ('[phrases]\n"agent.spoke" = "{thought}"', "'thought' is private"),
    ],
)
def test_mistakes_are_named_with_file_key_and_reason(toml: str, reason: str) -> None:
    with pytest.raises(Invalid, match=reason):
        parse_voice(toml, name="mine.toml")


def test_an_unknown_voice_is_an_error_with_a_suggestion() -> None:
    with pytest.raises(Invalid, match=r"voice 'nexsus': there is no such file.*did you mean 'nexus'"):
        load_voice("nexsus")


def test_packages_may_write_phrases_as_in_a_voice_or_as_in_0_1() -> None:
    new = check_phrases(Vocabulary(phrases={"kanban.moved": "{agent} moved {task}[ to {column:quote}]."}))
    assert new == {"kanban.moved": (("{agent} moved {task}[ to {column:quote}].",),)}
    old = check_phrases(Vocabulary(phrases={"kanban.moved": (("{agent} moved {task} [x]", "By {agent}: {task}"), ("{agent} moved",))}))
    assert old == {"kanban.moved": (("{agent} moved {task} [[x]]", "By {agent}: {task}"), ("{agent} moved",))}
    for bad in (
        {"fleet.commit": "x"},
        {"kanban.moved": ((),)},
        {"kanban.moved": (("{agent}", "{task}"),)},
        {"kanban.moved": (("{a!r}",),)},
    ):
        with pytest.raises(ValueError, match=r".+"):
            check_phrases(Vocabulary(phrases=bad))
