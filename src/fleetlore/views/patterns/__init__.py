"""Patterns: things that happen to work again and again, such as a struggle that ends in a recovery. docs/patterns.md describes them.

`patterns.toml` defines them, `matching.py` finds them in the events of a task or an agent (`fold.py` folds these), `session_rules.py`
in the facts of a session, and `across_sessions.py` in the outcome records of several. `installed.py` adds those of packages.
"""

from fleetlore.views.patterns.model import Finding, Part, Pattern

__all__ = ["Finding", "Part", "Pattern"]
