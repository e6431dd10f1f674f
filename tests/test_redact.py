"""Secrets never reach a disk; ordinary words are left alone."""

from __future__ import annotations

import json
import re
import timeit
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from time import thread_time
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fleetlore.redact import MASK, RULES, Redactor, SecretRule
from tests.secret_kinds import SecretText, fill_shape, in_the_wild, of_rules
from tests.strategies import json_values

# Put together here, so that no scanner takes this file for a leak.
RANDOM = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
SECRETS = {
    "a model key": "sk-" + "ant-api03-" + RANDOM,
    "a project key": "sk-" + "proj-" + RANDOM,
    "a payment key": "sk_" + "live_" + RANDOM[:24],
    "a forge token": "gh" + "p_" + RANDOM,
    "a fine-grained forge token": "github_" + "pat_" + RANDOM,
    "another forge's token": "glpat" + "-" + RANDOM[:20],
    "a chat token": "xox" + "b-1234567890-" + RANDOM[:12],
    "a cloud key": "AKIA" + "ABCDEFGHIJKLMNOP",
    "a maps key": "AIza" + RANDOM[:35],
    "a package token": "npm" + "_" + RANDOM,
    "a hub token": "hf" + "_" + RANDOM,
    "a token of ours": "lore" + "_" + (RANDOM + RANDOM)[:41] + "-_",
    "a web token": "eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0." + RANDOM,
    "a private key": "-----BEGIN " + "RSA PRIVATE KEY-----\nMIIEow\nIBAAKC\n-----END RSA PRIVATE KEY-----",
    "a private key without its end": "-----BEGIN " + "OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk",
}
HIDDEN_VALUES = {
    "password=hunter22": "hunter22",
    "DB_PASSWORD='correct horse'": "correct",
    "PGPASSWORD=abcd1234 psql": "abcd1234",
    "password: s3cr3t!": "s3cr3t!",
    "passwd = 12345678": "12345678",
    "export API_KEY=abcdefgh": "abcdefgh",
    "client_secret=zzzz-yyyy": "zzzz-yyyy",
    "--token abcdef123456": "abcdef123456",
    "GITHUB_TOKEN=abcdef": "abcdef",
    "Authorization: Basic dXNlcjpwYXNz": "dXNlcjpwYXNz",
    "authorization: token abcdef0123": "abcdef0123",
    "curl -H 'Bearer abcdef0123456789'": "abcdef0123456789",
    "postgres://ada:hunter2@db/fleet": "hunter2",
    "redis://:pa55@localhost:6379": "pa55",
    "https://user:tok@example.test/x": "tok",
    "postgres://ada:p@ss@db/fleet": "p@ss",
    "--access-key abcdefgh1": "abcdefgh1",
    "--client-secret abcdefgh1": "abcdefgh1",
    "Bearer\tabcdef0123456789": "abcdef0123456789",
    "TELEGRAM_TOKEN=110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw": "AAHdq",
    "token=12345678-90ab-4def-8000": "90ab",
    "SECRET_KEY=abcdefgh": "abcdefgh",
    r"{\"password\": \"x1y2z3w4\"}": "x1y2",
    '{"access_token":"abcdefghijklmnop"}': "abcdefghijklmnop",
    "password => 'open sesame'": "sesame",
}
INNOCENT = (
    "A" * 300,
    "Fixed the tokenizer; tokens: 41234, max_tokens=4096",
    "the password: please reset it on the login page",
    "task-42 and desk-set and risk-averse",
    "press any key: the keyboard shortcut is documented",
    "mailed ada@example.test about https://example.test/a/b",
    "see git@forge.test:team/repo.git and https://example.test:8080/path",
    "a secret: nobody reads the changelog",
    "bearer of good news arrived",
    "the per-token cost fell, and a non-secret value went up",
    "const token = await getToken()",
    "token = tokenizer.encode(text)",
    "def login(user, password=None): ...",
    "secret=os.environ['SECRET']",
    "next_token = lexer.next()",
    "fleetlore_" + "settings" * 6,
    "hash 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "token = Keyword.Reserved; password=password, client_secret=client_secret",
    "GL_STENCIL_PASS: 0x0B96, tests_passed=12, bypass: no",
    "cookie: chocolate chip, and the curl of a leaf",
    "commit 3bd38d9c0ffee00112233445566778899aabbccd and skbuff, sketch-12",
)


def clean(value: Any, *extra: str) -> tuple[Any, int]:
    """What the recorder does: the quick look first, the thorough one only if that finds something."""
    redactor = Redactor(extra)
    return redactor.redact_value(value) if redactor.may_contain_secret(msgspec.json.encode(value)) else (value, 0)


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize("frame", ["{}", "use {} for now", "KEY={}", '{{"text": "{}"}}', "({})", "url?k={}&x=1", "a line,\n{}\tand more"])
def test_known_kinds_of_secrets_are_found_wherever_they_stand(name: str, frame: str) -> None:
    secret = SECRETS[name]
    cleaned, found = clean({"text": frame.format(secret)})
    assert found >= 1
    assert secret[8:] not in cleaned["text"]
    assert MASK in cleaned["text"]


@pytest.mark.parametrize("text", HIDDEN_VALUES)
def test_the_value_behind_a_revealing_name_is_hidden_and_the_name_is_kept(text: str) -> None:
    cleaned, found = clean({"text": text})
    assert found == 1
    assert HIDDEN_VALUES[text] not in cleaned["text"]
    assert cleaned["text"].startswith(text[:6])


@pytest.mark.parametrize("key", ["password", "apiKey", "api_key", "access_token", "client-secret", "Authorization", "aws.secret"])
def test_a_string_under_a_revealing_key_is_hidden_whatever_it_looks_like(key: str) -> None:
    assert clean({"data": [{key: "plain words"}]}) == ({"data": [{key: MASK}]}, 1)


@pytest.mark.parametrize(
    ("value", "cleaned"),
    [
        ({"password": 12345678, "tokens": 12}, {"password": MASK, "tokens": 12}),
        ({"secret": ["hunter2"], "token": {"value": "abcd", "count": 5}}, {"secret": [MASK], "token": {"value": MASK, "count": 5}}),
        ({"command": ["mysql", "--password", "hunter2", "-v"]}, {"command": ["mysql", "--password", MASK, "-v"]}),
        ({"text": 'passphrase="correct horse battery staple" ok'}, {"text": f'passphrase="{MASK}" ok'}),
        ({"text": "PASSWORD: 'hunter 2'"}, {"text": f"PASSWORD: '{MASK}'"}),
        ({"text": '{"password": "two words", "n": 1}'}, {"text": f'{{"password": "{MASK}", "n": 1}}'}),
        ({SECRETS["a forge token"]: "x"}, {MASK: "x"}),
        ({"accessToken": "abc"}, {"accessToken": MASK}),
    ],
)
def test_secrets_are_found_beneath_revealing_keys_behind_flags_and_within_quotes(value: Any, cleaned: Any) -> None:
    assert clean(value)[0] == cleaned


def places_of(text: str) -> dict[str, Any]:
    """A text in the places where events have text."""
    nested = json.dumps({"output": text})
    return {"text": text, "input": {"command": text}, "key": {text: 1}, "list": ["x", text], "JSON in JSON": {"stdout": nested}}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("find_all", [of_rules, in_the_wild])
def test_every_kind_of_secret_is_masked_in_every_place(find_all: Callable[[Random], Iterable[SecretText]], seed: int) -> None:
    leaks = []
    for name, text, secrets in find_all(Random(seed)):
        for place, value in places_of(text).items():
            left = json.dumps(clean({"kind": "tool.called", "data": value})[0], ensure_ascii=False)
            lines = [line for secret in secrets for line in secret.split("\n") if len(line) >= 8]
            assert lines, name
            leaks += [(name, place) for line in lines if line in left]
    assert leaks == []


def test_there_are_more_than_a_hundred_kinds() -> None:
    assert len([*of_rules(Random(1)), *in_the_wild(Random(1))]) > 500


def test_real_code_is_left_alone() -> None:
    """At most one line of two thousand: the modules of the standard library whose names begin with these letters."""
    lines = [line for path in Path(json.__file__).parents[1].glob("[c-h]*.py") for line in path.read_text("utf-8").splitlines()]
    masked = [line for line in lines if clean({"text": line})[1]]
    assert len(lines) > 10_000
    assert len(masked) <= len(lines) / 2000, masked


def test_ids_and_hashes_are_left_alone() -> None:
    chance = Random(3)
    for _ in range(300):
        raw = chance.randbytes(32)
        wide = b64encode(raw + raw).decode()
        for text in (str(UUID(bytes=raw[:16])), raw.hex(), raw[:20].hex(), raw[:4].hex(), f"sha256:{raw.hex()}", f"call_{raw[:12].hex()}"):
            assert clean({"id": text, "text": f"see {text}, then go on"})[1] == 0, text
        for text in (f"toolu_{urlsafe_b64encode(raw[:18]).decode()}", f'"integrity": "sha512-{wide}"', f"h1:{wide[:43]}="):
            assert clean({"text": text})[1] == 0, text


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_no_rule_takes_more_than_linear_time(rule: SecretRule) -> None:
    """Beginnings of a match, again and again, and the same character in the places of a value."""
    shape = fill_shape(re.sub("[«»]", "", rule.examples[0]), Random(1))
    for piece in (shape[: max(1, len(shape) // 2)], shape[:-3], rule.needles[0], f"{rule.needles[0]}{rule.also} ", f"{shape[:12]}="):

        def seconds(size: int, piece: str = piece) -> float:
            value = {"text": rule.needles[0] + rule.also + piece * (size // len(piece))}
            return min(timeit.repeat(lambda: Redactor().redact_value(value), timer=thread_time, number=1, repeat=3))

        assert seconds(64_000) < 30 * seconds(8_000) + 0.02, piece  # eight times as long; its square would be 64 times


@pytest.mark.parametrize("text", INNOCENT)
def test_ordinary_words_are_left_alone(text: str) -> None:
    assert clean({"text": text, "tokens": 12, "token_count": 7}) == ({"text": text, "tokens": 12, "token_count": 7}, 0)


def test_every_secret_is_counted() -> None:
    text = f"{SECRETS['a model key']} and {SECRETS['a cloud key']}"
    assert clean({"a": text, "b": [text]})[1] == 4


def test_users_add_patterns_of_their_own() -> None:
    assert clean({"text": "badge ACME-12345678"}, r"ACME-\d{8}") == ({"text": f"badge {MASK}"}, 1)
    assert clean({"text": "PIN 1234"}, r"^PIN \d+$") == ({"text": MASK}, 1)
    assert clean({"text": 'say "sesame"'}, r'say "\w+"') == ({"text": MASK}, 1)


@pytest.mark.parametrize("piece", ["a.://x@", "token:", "eyJ-", "password=", "://", "a:b@", "-----BEGIN PRIVATE KEY-----", "secret='"])
def test_the_time_grows_with_the_length_and_not_with_its_square(piece: str) -> None:
    def seconds(size: int) -> float:
        value = {"text": piece * (size // len(piece))}
        return min(timeit.repeat(lambda: Redactor().redact_value(value), timer=thread_time, number=1, repeat=5))

    assert seconds(120_000) < 30 * seconds(15_000) + 0.01  # eight times as long; its square would be 64 times


@given(json_values())
def test_cleaning_twice_changes_nothing_more(value: Any) -> None:
    once, _ = Redactor().redact_value(value)
    assert Redactor().redact_value(once) == (once, 0)


@given(st.sampled_from(sorted({*SECRETS.values(), *HIDDEN_VALUES})), json_values())
def test_whatever_is_taken_out_was_suspected(secret: str, value: Any) -> None:
    for holder in ({"text": secret}, {"data": [value, secret]}, {secret: value}):
        if Redactor().redact_value(holder)[1]:
            assert Redactor().may_contain_secret(msgspec.json.encode(holder))


@given(st.sampled_from(sorted(SECRETS.values())), st.text(max_size=3), st.text(max_size=3))
@example(SECRETS["a model key"], "\x1b", "")
@example(SECRETS["a model key"], "→", "")
@example(SECRETS["a model key"], "\n", "")
def test_a_secret_is_suspected_however_what_stands_before_it_is_escaped(secret: str, before: str, after: str) -> None:
    text = f"{before}{secret}{after}"
    if Redactor().redact_value(text)[1]:
        assert Redactor().may_contain_secret(json.dumps({"text": text}).encode())
        assert Redactor().may_contain_secret(json.dumps({"text": text}, ensure_ascii=False).encode(errors="replace"))


@given(st.sampled_from(sorted(SECRETS)), st.text(max_size=40), st.text(max_size=40))
def test_the_quick_look_never_misses_what_the_thorough_one_finds(name: str, before: str, after: str) -> None:
    text = f"{before} {SECRETS[name]} {after}"
    assert Redactor().may_contain_secret(msgspec.json.encode({"text": text}))


def test_a_variable_from_which_a_shell_takes_a_secret_is_no_secret() -> None:
    clean = {"a": "TOKEN=$GH_TOKEN gh pr list", "b": 'API_KEY="${OPENAI_KEY}" make', "c": "export TOKEN=$(gh auth token)"}
    assert Redactor().redact_value(clean) == (clean, 0)
    for value in ("$ecret1234", "$2b$10$abcdefghijk", "$GH_TOKENabc123def"):
        assert value not in str(Redactor().redact_value({"a": f"PASSWORD={value} make", "b": f'PASSWORD="{value}" make'})[0])
