"""What `lore notify on` switches on, and notifications about approvals."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from fleetlore import Event, clock
from fleetlore import settings as config
from fleetlore.cli import default_notifications
from fleetlore.errors import Invalid
from fleetlore.server.notifications.bodies import Message, build_webhook_request
from fleetlore.server.notifications.rules import Webhook, parse_rules
from fleetlore.views.session_status import LOOP
from tests.server.test_notify_watch import Play, watch

RUN = "0b5e1111-2222-4333-8444-555566667777"
AGENT = "claude-code/0b5e1111"


@pytest.fixture
def user_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return Path(config.user_file())


def test_they_are_added_to_what_is_there_and_removed_to_the_byte(user_file: Path) -> None:
    user_file.parent.mkdir(parents=True)
    user_file.write_text('town = "harbour"\n')
    default_notifications.turn_on("https://ntfy.sh/topic", zone="Europe/Berlin")
    default_notifications.turn_on("https://ntfy.sh/topic", zone="Europe/Berlin")  # again: they are there once
    rules = parse_rules(config.load_settings(folder=str(user_file.parent)))
    assert {rule.what for rule in rules} == {*default_notifications.WHENS, default_notifications.BRIEF}
    assert {rule.via for rule in rules} == {"command", "webhook"}
    assert len(rules) == 12
    assert user_file.stat().st_mode & 0o777 == 0o600
    assert default_notifications.turn_off() == (str(user_file), True)
    assert user_file.read_text() == 'town = "harbour"\n'
    assert default_notifications.turn_off() == (str(user_file), False)


@pytest.mark.parametrize(
    ("address", "form"),
    [
        ("https://hooks.slack.com/services/T/B/X", "slack"),
        ("https://discord.com/api/webhooks/1/x", "discord"),
        ("ntfy.sh/topic", "ntfy"),
        ("https://example.org/hook", "json"),
    ],
)
def test_an_address_is_enough(address: str, form: str) -> None:
    assert tomllib.loads(default_notifications.describe_target(address))["format"] == form


@pytest.mark.parametrize("address", ['https://x"\ny', "ftp://x", "https://", "https://x y"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(Invalid):
        default_notifications.describe_target(address)


def test_a_session_that_finishes_is_said_once_and_a_question_is_not_finished() -> None:
    play = Play(watch("finished"))
    start = Event(kind="prompt.submitted", agent=AGENT, run=RUN, data={"prompt": "Fix it"})
    assert play.record(start) == []
    assert len(play.record(Event(kind="session.turn_ended", agent=AGENT, run=RUN, text="Done."))) == 1
    assert play.record(start, Event(kind="session.turn_ended", agent=AGENT, run=RUN, text="Which one do you want?")) == []


def test_a_failed_turn_is_said() -> None:
    failed = Event(kind="session.turn_ended", agent=AGENT, run=RUN, text="rate limit", data={"reason": "failed"})
    assert len(Play(watch("failed")).record(failed)) == 1
    assert Play(watch("failed")).record(Event(kind="session.turn_ended", agent=AGENT, run=RUN)) == []


def test_a_loop_is_said_once() -> None:
    play, failure = Play(watch("looping")), Event(kind="tool.failed", agent=AGENT, run=RUN, text="Bash: pytest: 1 failed")
    assert len(play.record(*[failure] * (LOOP + 5))) == 1
    assert len(play.record(Event(kind="tool.returned", agent=AGENT, run=RUN), *[failure] * LOOP)) == 1


@pytest.mark.parametrize("answerable", [True, False])
def test_an_approval_has_buttons_on_the_phone_if_it_can_be_answered(answerable: bool) -> None:
    data = {"tool": "Bash", "input": {"command": "make"}} | ({} if answerable else {"answerable": False})
    event = Event(id=clock.uuid7(), kind="approval.requested", agent=AGENT, run=RUN, data=data)
    message = Message(id="m", rule="phone", when="needs you", text="It asks.", at=clock.now(), event=event)
    webhook = Webhook("https://ntfy.sh/topic", "ntfy", approve_url="https://lore.example:7077/", approve_token="tok")
    actions = build_webhook_request(webhook, message).headers.get("Actions", "")
    assert (f"Allow, https://lore.example:7077/api/approvals/{event.id}, method=POST" in actions) is answerable
    assert ("Deny" in actions) is answerable
    assert "Actions" not in build_webhook_request(Webhook("https://ntfy.sh/topic", "ntfy"), message).headers
