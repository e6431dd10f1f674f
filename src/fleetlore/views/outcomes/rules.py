"""What a user's settings decide about outcome records: the prices of models and the rules for flags."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from msgspec import Struct

from fleetlore.errors import ConfigError
from fleetlore.views.costs import Costs
from fleetlore.views.outcomes.flags import FlagRules, built_in_rules, check_examples, read_rules
from fleetlore.views.prices import Prices

if TYPE_CHECKING:
    from fleetlore.settings import Settings

MAX_RULE_BYTES = 1 << 20


class OutcomeRules(Struct, frozen=True):
    """How sessions are counted and judged."""

    costs: Costs
    flags: FlagRules
    own_flags: str = ""
    """A digest of the user's own flag rules; empty without any."""

    @property
    def key(self) -> str:
        """Changes with everything that the user can set."""
        return f"{self.costs.prices.key}{self.own_flags and f'-flags-{self.own_flags}'}"


def default_rules(costs: Costs | None = None) -> OutcomeRules:
    """Built-in prices and flags, or these costs and built-in flags."""
    return OutcomeRules(costs or Costs(), built_in_rules())


def read_outcome_rules(settings: Settings) -> OutcomeRules:
    """The rules of a user. Raises `ConfigError` if a file of flag rules cannot be used."""
    flags, documents = built_in_rules(), list[bytes]()
    for path in settings.flag_rules.value:
        try:
            with open(path, "rb") as file:
                document = file.read(MAX_RULE_BYTES + 1)
            if len(document) > MAX_RULE_BYTES:
                raise ValueError(f"it has more than {MAX_RULE_BYTES >> 20} MiB")
            more = read_rules(document.decode())
            check_examples(more)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise ConfigError(f"flags.rules of {settings.flag_rules.source}: {path}: {reason}") from error
        flags = flags.extended_by(more)
        documents.append(document)
    digest = sha256(b"\0".join(documents)).hexdigest()[:16] if documents else ""
    return OutcomeRules(Costs(Prices(settings.prices.value)), flags, digest)
