"""Every model behind HTTP must behave the same, whatever its protocol."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from fleetlore.models.anthropic import AnthropicModel
from fleetlore.models.endpoint import HttpModel, ModelEndpoint, ModelTimeouts
from fleetlore.models.openai import OpenAIModel
from fleetlore.models.retry import RetryPolicy
from tests.models.stub import Speech, Stub, chat, message

KEY = "hush-hush-4711"


class Protocol(NamedTuple):
    """One protocol: its model class, and how its endpoint answers."""

    mind: type[HttpModel]
    says: Speech
    alive: str
    """What an endpoint sends to show that it lives."""

    def at(self, stub: Stub, *, pauses: list[float] | None = None, scheme: str = "http", most: int = 3, **patience: float) -> HttpModel:
        """A model that asks the stub; `pauses` collects its pauses instead of sleeping."""

        async def sleep(seconds: float) -> None:
            if pauses is not None:
                pauses.append(seconds)

        place = ModelEndpoint(model="small", base_url=f"{scheme}://127.0.0.1:{stub.port}", key=KEY)
        chance = random.Random(7).random
        return self.mind(place, timeouts=ModelTimeouts(**patience), attempts=RetryPolicy(max_attempts=most), sleep=sleep, jitter=chance)

    def cut(self, *tokens: str) -> Sequence[str]:
        """The beginning of an answer."""
        return self.says(*tokens, finish=None)

    def error(self, kind: str, words: str) -> dict[str, Any]:
        return {"type": "error", "error": {"type": kind, "message": words}}


OPENAI = Protocol(OpenAIModel, chat, ": alive\n\n")
ANTHROPIC = Protocol(AnthropicModel, message, 'event: ping\ndata: {"type": "ping"}\n\n')


@pytest.fixture(params=[OPENAI, ANTHROPIC], ids=["openai", "anthropic"])
def protocol(request: pytest.FixtureRequest) -> Protocol:
    chosen: Protocol = request.param
    return chosen
