"""Model addresses: what they mean, and the errors for invalid ones."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from fleetlore.errors import InvalidModelAddress, ModelError
from fleetlore.models.base import ModelRequest
from fleetlore.models.endpoint import HttpModel, ModelEndpoint, ModelTimeouts
from fleetlore.models.open import open_model, parse_address


async def test_the_scripted_one_needs_nothing() -> None:
    async with open_model("scripted:village", environ={}) as mind, open_model(environ={}) as other:
        assert (await mind.reply(ModelRequest(prompt="Hello?"))).text
        assert (mind.name, other.name) == ("scripted:village", "scripted:")


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("openai:gpt-5-mini", ModelEndpoint(model="gpt-5-mini", key="own")),
        ("openai:qwen3:8b?base_url=http://localhost:11434/v1", ModelEndpoint(model="qwen3:8b", base_url="http://localhost:11434/v1")),
        ("openai:a/b%3Fc?base_url=https%3A%2F%2Fh/v1&key_env=OTHER", ModelEndpoint(model="a/b?c", base_url="https://h/v1", key="other")),
        ("anthropic:claude-x?key_env=OTHER", ModelEndpoint(model="claude-x", key="other")),
    ],
)
def test_an_address_names_the_model_the_place_and_the_variable_of_the_key(address: str, place: ModelEndpoint) -> None:
    mind = open_model(address, environ={"OPENAI_API_KEY": " own\n", "OTHER": "other"})
    assert isinstance(mind, HttpModel)
    assert mind.endpoint == place


def test_patience_can_be_said() -> None:
    mind = open_model("openai:m?base_url=http://h&connect=1&first=2.5&between=3&total=40&attempts=2", environ={})
    assert isinstance(mind, HttpModel)
    assert mind.timeouts == ModelTimeouts(connect=1, first=2.5, between=3, total=40)


@pytest.mark.parametrize(
    ("address", "advice"),
    [
        ("", "use scripted:, openai:MODEL or anthropic:MODEL"),
        ("gpt-5", "use scripted:, openai:MODEL"),
        ("mistral:large", "unknown model address 'mistral:large'"),
        ("sk-ant-api03-" + "Ab3" * 20, r"unknown model address '\[redacted\]"),
        ("openai:", "which model"),
        ("anthropic:?total=5", "which model"),
        ("openai:m?temperature=1", "it takes base_url, key_env"),
        ("scripted:x?total=5", "takes no options"),
        ("openai:m?base_url=localhost:8000", "write it like https://HOST/v1"),
        ("openai:m?base_url=file:///etc/passwd", "write it like https://HOST/v1"),
        ("openai:m?base_url=http://[", "write it like https://HOST/v1"),
        ("openai:m?total=soon", "a number above 0"),
        ("openai:m?first=nan", "a number above 0"),
        ("openai:m?attempts=0", "a number above 0"),
        ("openai:m?attempts=1.5", "a number above 0"),
    ],
)
def test_an_address_that_means_nothing_says_how_to_write_one(address: str, advice: str) -> None:
    with pytest.raises(InvalidModelAddress, match=advice.replace("?", r"\?")):
        open_model(address, environ={"OPENAI_API_KEY": "own"})


@pytest.mark.parametrize(
    "address", ["openai:m?key=hush-4711", "anthropic:m?api_key=hush-4711", "openai:m?base_url=https://me:hush-4711@host/v1"]
)
def test_a_secret_in_an_address_is_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(InvalidModelAddress, match="key_env") as caught:
        parse_address(address)
    assert "4711" not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "environ", "advice"),
    [
        ("openai:m", {}, r"no key in \$OPENAI_API_KEY; export OPENAI_API_KEY=…"),
        ("anthropic:m", {"ANTHROPIC_API_KEY": "  "}, r"no key in \$ANTHROPIC_API_KEY"),
        ("openai:m?base_url=http://h&key_env=NONE", {"OPENAI_API_KEY": "own"}, r"no key in \$NONE"),
        ("openai:m", {"OPENAI_API_KEY": "schlüssel"}, "cannot be a key"),
    ],
)
def test_a_key_that_is_missing_is_asked_for_by_its_variable(address: str, environ: dict[str, str], advice: str) -> None:
    with pytest.raises(ModelError, match=advice):
        open_model(address, environ=environ)


@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_a_client_that_is_not_installed_is_named_with_its_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ModelError, match=rf"pip install 'fleetlore\[{name}\]'"):
        open_model(f"{name}:m?base_url=http://h", environ={})


def test_the_client_libraries_are_loaded_when_they_are_asked_for_and_not_before() -> None:
    modules = (
        "fleetlore.models.open, fleetlore.models.openai, fleetlore.models.anthropic, fleetlore.testing, fleetlore.kernel.recorded_model"
    )
    code = f"import sys, {modules}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert not {"openai", "anthropic", "httpx2", "pydantic"} & set(loaded)


def test_nobody_needs_to_know_more_than_the_seam() -> None:
    """A model is whatever has a name and replies."""
    from fleetlore.models.base import Model, ModelReply

    class Parrot:
        name = "parrot:"

        async def reply(self, ask: ModelRequest) -> ModelReply:
            return ModelReply(text=ask.prompt)

    mind: Model = Parrot()
    known: Any = mind
    assert known.name == "parrot:"
