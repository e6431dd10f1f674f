"""Sending one notice: what the receiver gets, what becomes of every kind of trouble, and what hostile words cannot do."""

from __future__ import annotations

import hmac
import json
import os
import socket
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetlore import Event
from fleetlore.server.notifications.bodies import (
    DISCORD_MAX_CHARS,
    ENCODERS_BY_FORMAT,
    Message,
    build_command,
    build_webhook_request,
    neutralise_argument,
)
from fleetlore.server.notifications.rules import FORMATS, CommandTarget, Webhook
from fleetlore.server.notifications.send import SendResult, deliver_message
from tests.server.notifying import Receiver

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
EVENT = Event(id="00000000-0000-7000-8000-000000000001", at=datetime(2026, 1, 1, tzinfo=UTC), kind="fleet.error", agent="ada", position="7")


def message(text: str = "ada met an error.", *, event: Event = EVENT, url: str | None = None) -> Message:
    return Message(id="n1", rule="errors", when="fleet.error", text=text, at=datetime(2026, 1, 1, tzinfo=UTC), event=event, url=url)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


def test_a_webhook_gets_the_notice_as_json(receiver: Receiver) -> None:
    assert deliver_message(Webhook(receiver.address("200")), message(url="http://h/fleet")) == SendResult()
    request = receiver.next()
    assert request.headers["content-type"] == "application/json"
    assert request.headers["x-fleetlore-notice"] == "n1"
    assert request.json == {
        "id": "n1",
        "rule": "errors",
        "when": "fleet.error",
        "text": "ada met an error.",
        "at": "2026-01-01T00:00:00Z",
        "url": "http://h/fleet",
        "event": {
            "id": EVENT.id, "at": "2026-01-01T00:00:00.000000Z", "kind": "fleet.error", "agent": "ada", "v": 1, "position": "7",
        },
    }  # fmt: skip


def test_a_body_is_signed_and_a_token_is_sent(receiver: Receiver) -> None:
    deliver_message(Webhook(receiver.address("200"), secret="hush", token="abc"), message())
    request = receiver.next()
    assert request.headers["x-fleetlore-signature"] == f"sha256={hmac.digest(b'hush', request.body, 'sha256').hex()}"
    assert request.headers["authorization"] == "Bearer abc"


def test_the_trace_of_an_event_goes_on(receiver: Receiver) -> None:
    deliver_message(Webhook(receiver.address("200")), message(event=Event(kind="x.y", trace=TRACE)))
    assert receiver.next().headers["traceparent"] == TRACE
    deliver_message(Webhook(receiver.address("200")), message(event=Event(kind="x.y", trace="00-x\r\nX-Evil: 1")))
    assert "traceparent" not in receiver.next().headers


@pytest.mark.parametrize(
    ("path", "error", "is_final"),
    [
        ("500", "answered 500 Internal Server Error", False),
        ("503", "answered 503 Service Unavailable", False),
        ("404", "answered 404 Not Found", True),
        ("401", "answered 401 Unauthorized", True),
        ("599", "answered 599", False),
        ("429", "answered 429 Too Many Requests", False),
        ("close", "broke off (RemoteDisconnected)", False),
    ],
)
def test_trouble_is_reported_in_our_own_words_with_whether_to_try_again(receiver: Receiver, path: str, error: str, is_final: bool) -> None:
    outcome = deliver_message(Webhook(f"{receiver.address(path)}"), message())
    assert outcome == SendResult(error, is_final, 7.0 if path == "429" else None)


def test_a_redirect_is_reported_and_not_followed(receiver: Receiver) -> None:
    receiver.redirected_to = f"{receiver.address('200')}?key=T0PSECRET"
    outcome = deliver_message(Webhook(receiver.address("redirect")), message())
    assert outcome.error == "redirected to 127.0.0.1 (302), which is not followed; name the final address in the rule"
    assert outcome.is_final
    assert [request.path for request in receiver.all()] == ["/redirect"]


@pytest.mark.parametrize("location", ["", "http://[", "//", "http://ev\til/", "javascript:alert(1)"])
def test_a_redirect_to_nonsense_does_no_harm(receiver: Receiver, location: str) -> None:
    receiver.redirected_to = location
    assert "redirected to " in str(deliver_message(Webhook(receiver.address("redirect")), message()).error)


def test_who_does_not_answer_is_waited_for_so_long_and_no_longer(receiver: Receiver) -> None:
    start = monotonic()
    outcome = deliver_message(Webhook(receiver.address("hang")), message(), timeout=0.05)
    assert outcome == SendResult("no answer within 0.05 s")
    assert monotonic() - start < 5


def test_no_proxy_stands_between_this_machine_and_itself(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9/")
    assert deliver_message(Webhook(receiver.address("200")), message()) == SendResult()
    assert "cannot be reached" in str(deliver_message(Webhook("http://hooks.example/"), message()).error)


def test_nobody_at_the_address_is_an_outcome_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert deliver_message(Webhook(f"http://127.0.0.1:{port}/T0PSECRET"), message()) == SendResult("cannot be reached: Connection refused")


def test_what_does_not_speak_http_is_an_outcome_too() -> None:
    from tests.stubs import announcing

    with announcing(b"220 mail.example ESMTP\r\n\r\n", first=True) as port:
        outcome = deliver_message(Webhook(f"http://127.0.0.1:{port}/T0PSECRET"), message())
    assert outcome.error is not None
    assert "T0PSECRET" not in outcome.error


# --- formats


def body(form: str, text: str, **more: str) -> str:
    return ENCODERS_BY_FORMAT[form](message(text, **more))[1].decode()  # type: ignore[arg-type]  # only the url is given


def test_every_format_has_a_form() -> None:
    assert set(ENCODERS_BY_FORMAT) == set(FORMATS)


def test_slack_is_given_words_and_can_be_made_to_call_nobody() -> None:
    recorded = json.loads(body("slack", "<!channel> & <http://evil|ok>", url="http://h/fleet"))
    assert recorded["text"] == "&lt;!channel&gt; &amp; &lt;http://evil|ok&gt; <http://h/fleet|Open>"


def test_discord_is_given_words_and_can_be_made_to_call_nobody() -> None:
    recorded = json.loads(body("discord", "@everyone **now** [ok](http://evil)"))
    assert recorded["content"] == r"\@everyone \*\*now\*\* \[ok\]\(http\://evil\)"
    assert recorded["allowed_mentions"] == {"parse": []}
    assert len(json.loads(body("discord", "*" * 5000, url="http://h/"))["content"]) <= DISCORD_MAX_CHARS


def test_ntfy_gets_the_sentence_and_where_to_look() -> None:
    call = build_webhook_request(Webhook("http://h/", "ntfy"), message("ada ⚠ waits.", url="http://h/fleet"))
    assert call.body == "ada ⚠ waits.".encode()
    assert (call.headers["Title"], call.headers["Click"]) == ("Fleetlore: errors", "http://h/fleet")


def test_plain_is_one_line() -> None:
    assert body("plain", "ada waits.") == "ada waits.\n"


@given(st.text())
def test_no_words_break_a_form(text: str) -> None:
    for form in FORMATS:
        call = build_webhook_request(Webhook("http://h/", form, secret="s"), message(text))
        assert all(value.isascii() and value.isprintable() for value in call.headers.values())


# --- commands


def python(code: str, *arguments: str) -> CommandTarget:
    return CommandTarget((sys.executable, "-c", code, *arguments))


def test_a_command_gets_its_arguments_and_the_notice_on_standard_input(tmp_path: Path) -> None:
    out = tmp_path / "out"
    code = "import json, sys; json.dump([sys.argv[2:], json.load(sys.stdin)], open(sys.argv[1], 'w'))"
    command = python(code, str(out), "{text}", "{rule}", "{kind}", "{agent}", "{id}", "{url}", "{other}", "$HOME; ls")
    assert deliver_message(command, message()) == SendResult()
    arguments, recorded = json.loads(out.read_text())
    assert arguments == ["ada met an error.", "errors", "fleet.error", "ada", EVENT.id, "", "{other}", "$HOME; ls"]
    assert recorded["event"]["id"] == EVENT.id


@pytest.mark.parametrize("text", ["--exec=rm", "-rf", "@/etc/passwd", "/etc/passwd", "$(reboot)", "=cmd", "~root", "\u2014x"])
def test_hostile_words_become_neither_option_nor_file(text: str) -> None:
    [_, recorded] = build_command(CommandTarget(("notify-send", "{text}")), message(text))
    assert recorded == f" {text}"


@given(st.text())
def test_an_argument_is_always_one_that_can_be_handed_over(text: str) -> None:
    argument = neutralise_argument(text)
    assert "\0" not in argument
    assert argument == "" or argument[0] == " " or argument[0].isalnum()


def test_words_in_a_placeholders_form_are_not_filled_in_again() -> None:
    assert build_command(CommandTarget(("x", "{text}")), message("{url}"))[1] == " {url}"


def test_a_command_that_fails_says_with_what() -> None:
    name = os.path.basename(sys.executable)
    assert deliver_message(python("raise SystemExit(3)"), message()) == SendResult(f"{name} ended with 3")
    assert deliver_message(python("import os; os.kill(os.getpid(), 15)"), message()) == SendResult(f"{name} was ended by signal 15")


def test_a_command_that_is_not_there_is_not_tried_again(tmp_path: Path) -> None:
    outcome = deliver_message(CommandTarget((str(tmp_path / "nothing"), "{text}")), message())
    assert outcome == SendResult("nothing cannot be run: No such file or directory", is_final=True)


def test_a_command_that_reads_nothing_does_no_harm() -> None:
    assert deliver_message(python("pass"), message(event=Event(kind="x.y", text="x" * 500_000))) == SendResult()


def test_a_command_that_does_not_end_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    fifo = tmp_path / "alive"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        script = '(exec 3>"$0"; echo begun >&3; exec tail -f /dev/null) & wait'
        outcome = deliver_message(CommandTarget(("sh", "-c", script, str(fifo))), message(), timeout=0.5)
        assert outcome == SendResult("sh did not end within 0.5 s")
        os.set_blocking(reader, True)
        assert os.read(reader, 100) == b"begun\n"
        assert os.read(reader, 100) == b"", "nobody holds the other end any more"
    finally:
        os.close(reader)
