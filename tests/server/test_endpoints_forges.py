"""Deliveries of forges: their source, their signature, and that each is stored once."""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from fleetlore import settings as config
from fleetlore.errors import ConfigError
from tests.server.endpoint_client import EndpointClient, open_endpoints

SECRETS = {"github": "gh-hush", "gitea": "tea-hush", "forgejo": "jo-hush"}
ENVIRON = {f"FLEETLORE_{forge.upper()}_SECRET": secret for forge, secret in SECRETS.items()}
ISSUE = {
    "action": "opened",
    "issue": {"id": 5, "number": 7, "title": "The parser stumbles", "user": {"login": "grace"}, "created_at": "2026-05-01T10:00:00Z"},
    "repository": {"full_name": "harbour/parser"},
    "sender": {"login": "grace"},
}
RAW = json.dumps(ISSUE).encode()
PING = json.dumps({"zen": "Keep it simple.", "hook_id": 1}).encode()


@pytest.fixture
def endpoints() -> Iterator[EndpointClient]:
    """Secrets are set for all forges."""
    with open_endpoints(environ=ENVIRON) as opened:
        yield opened


@pytest.fixture
def unsigned() -> Iterator[EndpointClient]:
    """No secret is set."""
    with open_endpoints() as opened:
        yield opened


def sign(secret: str, raw: bytes) -> str:
    return hmac.new(secret.encode(), raw, sha256).hexdigest()


def headers_of(forge: str, raw: bytes = RAW, *, event: str = "issues", secret: str | None = None, delivery: str = "d-1") -> dict[str, str]:
    """What each forge sends: Gitea also as GitHub, Forgejo also as both."""
    signature = sign(secret or SECRETS[forge], raw)
    sent: dict[str, str] = {}
    for name in {"github": ("github",), "gitea": ("gitea", "github"), "forgejo": ("forgejo", "gitea", "github")}[forge]:
        sent |= {f"x-{name}-event": event, f"x-{name}-delivery": delivery}
        if name != "github":
            sent[f"x-{name}-signature"] = signature
    return sent | {"x-hub-signature-256": f"sha256={signature}", "x-hub-signature": "sha1=0"}


@pytest.mark.parametrize("path", SECRETS)
@pytest.mark.parametrize("forge", SECRETS)
def test_a_signed_delivery_is_read_as_its_sender_s_whichever_path_it_came_by(endpoints: EndpointClient, forge: str, path: str) -> None:
    answer = endpoints.post(f"/hooks/{path}", RAW, token=None, headers=headers_of(forge))
    [event] = endpoints.events
    assert (answer.status, answer.json) == (200, {"positions": [event.position]})
    assert (event.mission, event.task, event.actor) == ("harbour/parser", "#7", "grace")
    assert event.data["forge"] == ("github" if forge == "github" else "gitea")
    assert event.origin is not None
    assert event.origin.id == "d-1"


@pytest.mark.parametrize("forge", SECRETS)
def test_a_delivery_that_comes_again_is_reported_once(endpoints: EndpointClient, forge: str) -> None:
    first = endpoints.post(f"/hooks/{forge}", RAW, token=None, headers=headers_of(forge))
    again = endpoints.post(f"/hooks/{forge}", RAW, token=None, headers=headers_of(forge, delivery="d-2"))
    assert (again.json, len(endpoints.events)) == (first.json, 1)


def test_what_has_no_key_of_its_own_is_known_by_its_delivery(endpoints: EndpointClient) -> None:
    raw = json.dumps({"repository": ISSUE["repository"], "sender": ISSUE["sender"], "action": "did"}).encode()
    for delivery in ("d-1", "d-2", "d-1"):
        endpoints.post("/hooks/github", raw, token=None, headers=headers_of("github", raw, event="novelty", delivery=delivery))
    assert endpoints.kinds == ["forge.novelty_did"] * 2


@pytest.mark.parametrize("path", SECRETS)
@pytest.mark.parametrize("forge", SECRETS)
@pytest.mark.parametrize("token", [None, ""])
def test_a_bad_signature_or_none_keeps_a_delivery_out_even_with_a_token(
    endpoints: EndpointClient, forge: str, path: str, token: str | None
) -> None:
    good = headers_of(forge)
    bad = headers_of(forge, secret="guessed")
    none = {name: value for name, value in good.items() if "signature" not in name}
    short = {name: value[:20] if "signature" in name else value for name, value in good.items()}
    odd = none | {"x-hub-signature-256": "sha256=\xe9", "x-gitea-signature": ""}
    for headers, why in ((bad, "another secret"), (none, "not signed"), (short, "another secret"), (odd, "another secret")):
        answer = endpoints.post(f"/hooks/{path}", RAW, token=token, headers=headers)
        assert (answer.status, endpoints.events) == (401, [])
        assert why in answer.detail
        assert not any(secret in answer.body.decode() for secret in SECRETS.values())


def test_the_signature_is_of_the_very_bytes(endpoints: EndpointClient) -> None:
    assert endpoints.post("/hooks/github", RAW + b" ", token=None, headers=headers_of("github")).status == 401


def test_sha_1_alone_is_no_signature(endpoints: EndpointClient) -> None:
    old = {"x-github-event": "issues", "x-hub-signature": "sha1=" + hmac.new(b"gh-hush", RAW, "sha1").hexdigest()}
    assert endpoints.post("/hooks/github", RAW, token=None, headers=old).status == 401


def test_headers_of_a_forge_without_a_secret_do_not_open_the_path_of_one_that_has_it() -> None:
    with open_endpoints(environ={"FLEETLORE_GITHUB_SECRET": "gh-hush"}) as endpoints:
        assert endpoints.post("/hooks/github", RAW, token=None, headers={"x-gitea-event": "issues"}).status == 401
        assert endpoints.post("/hooks/gitea", RAW, token=None, headers={"x-github-event": "issues"}).status == 401
        assert endpoints.post("/hooks/gitea", RAW, token=None, headers={"x-gitea-event": "issues"}).status == 401
        assert endpoints.post("/hooks/gitea", RAW, headers={"x-gitea-event": "issues"}).status == 200


def test_gitea_s_secret_will_do_for_forgejo() -> None:
    with open_endpoints(environ={"FLEETLORE_GITEA_SECRET": "tea-hush"}) as endpoints:
        assert endpoints.post("/hooks/forgejo", RAW, token=None, headers=headers_of("forgejo", secret="tea-hush")).status == 200


def test_without_a_secret_a_token_is_needed(unsigned: EndpointClient) -> None:
    assert unsigned.post("/hooks/github", RAW, token=None, headers=headers_of("github")).status == 401
    assert unsigned.post("/hooks/github", RAW, headers={"x-github-event": "issues"}).status == 200
    assert len(unsigned.events) == 1


@pytest.mark.parametrize("forge", SECRETS)
def test_a_ping_is_answered_whatever_it_names(endpoints: EndpointClient, forge: str) -> None:
    answer = endpoints.post(f"/hooks/{forge}", PING, token=None, headers=headers_of(forge, PING, event="ping"))
    assert (answer.status, answer.json) == (200, {"positions": []})
    whole = json.dumps(json.loads(PING) | {"repository": ISSUE["repository"]}).encode()
    assert endpoints.post(f"/hooks/{forge}", whole, token=None, headers=headers_of(forge, whole, event="ping")).status == 200
    assert endpoints.kinds == ["forge.ping"]


def test_a_form_is_read_and_its_signature_is_of_the_form(endpoints: EndpointClient) -> None:
    form = urlencode({"payload": RAW.decode()}).encode()
    kind = "application/x-www-form-urlencoded"
    assert endpoints.post("/hooks/github", form, type=kind, token=None, headers=headers_of("github", RAW)).status == 401
    assert endpoints.post("/hooks/github", form, type=kind, token=None, headers=headers_of("github", form)).status == 200
    assert len(endpoints.events) == 1


@pytest.mark.parametrize("form", [b"", b"payload=", b"payload=%7B%7D&payload=%7B%7D", b"other=1", b"payload=%FF", b"a=&" * 50, b"\xff"])
def test_a_form_without_a_payload_is_refused_with_advice(unsigned: EndpointClient, form: bytes) -> None:
    answer = unsigned.post("/hooks/github", form, type="application/x-www-form-urlencoded")
    assert (answer.status, unsigned.events) == (400, [])
    assert answer.detail


@pytest.mark.parametrize("kind", [None, "text/plain", "multipart/form-data"])
def test_another_content_type_is_refused_with_advice(unsigned: EndpointClient, kind: str | None) -> None:
    answer = unsigned.post("/hooks/gitea", RAW, type=kind)
    assert answer.status == 415
    assert "application/json" in answer.detail


def test_what_is_no_delivery_is_refused(unsigned: EndpointClient) -> None:
    bodies: list[Any] = [{}, {"hello": 1}, []]
    for body in bodies:
        answer = unsigned.post("/hooks/github", body, headers={"x-github-event": "push"})
        assert answer.status in (400, 422)
    assert unsigned.events == []


# --- the settings


def write(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / config.FILE_NAME
    path.write_text(text)
    return path


def load(home: Path, folder: Path, **environ: str) -> config.Settings:
    return config.load_settings(environ={"XDG_CONFIG_HOME": str(home)} | environ, folder=str(folder))


def test_secrets_come_from_the_user_s_file_and_the_environment_wins(tmp_path: Path) -> None:
    path = write(tmp_path / "fleetlore", '[hooks]\ngithub_secret = "one"\ngitea_secret = "two"\n')
    found = load(tmp_path, tmp_path / "work", FLEETLORE_GITEA_SECRET="three").hooks
    assert {name: secret.reveal() for name, secret in found.value.items()} == {"github_secret": "one", "gitea_secret": "three"}
    assert found.source == f"the environment, {path}"


def test_a_project_s_file_that_was_not_approved_sets_none(tmp_path: Path) -> None:
    write(tmp_path / "work", '[hooks]\ngithub_secret = "planted"\n')
    assert "planted" not in str(load(tmp_path, tmp_path / "work"))


@pytest.mark.parametrize("said", ["github_secret = ''", "github_secret = 7", "other = 'hush'"])
def test_what_is_no_secret_is_refused_without_being_shown(tmp_path: Path, said: str) -> None:
    write(tmp_path / "fleetlore", f"[hooks]\n{said}\n")
    with pytest.raises(ConfigError, match="hooks") as caught:
        load(tmp_path, tmp_path)
    assert "hush" not in str(caught.value)


def test_a_secret_shows_itself_to_nobody(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from fleetlore.cli import main

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLEETLORE_GITHUB_SECRET", "gh-hush")
    settings: Any = config.load_settings()
    assert "gh-hush" not in repr(settings) + str(settings)
    for more in ([], ["--json"]):
        with suppress(SystemExit):
            main.main(["config", "show", *more])
        shown = capsys.readouterr().out
        assert "github_secret" in shown
        assert "gh-hush" not in shown
