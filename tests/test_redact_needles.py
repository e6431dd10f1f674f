"""`fleetlore/redact_needles.py` has the needles of all redaction rules, so that a hook need not load the rules.

After a change of the rules:  python -m tests.test_redact_needles
"""

from __future__ import annotations

from pathlib import Path

from fleetlore import redact, redact_needles

HEAD = '''"""What secrets look like at first sight: every secret that `redact.py` finds contains one of these, in lower case.

Derived from its rules by `python -m tests.test_redact_needles`. A module of its own, because it is all that `lore hook` needs for a
call without a secret: importing the rules takes as long as starting Python.
"""

from __future__ import annotations

NEEDLES = (
'''
TAIL = ''')


def is_surely_clean(raw: bytes) -> bool:
    """Return whether a payload contains no secret. False does not mean that it does."""
    lowered = raw.lower()
    return not any(needle in lowered for needle in NEEDLES)
'''


def derived() -> tuple[bytes, ...]:
    return (*redact._ENCODED_NEEDLES, *redact._ENCODED_WORD_STARTS)


def test_the_needles_are_those_of_the_rules() -> None:
    assert derived() == redact_needles.NEEDLES, "run `python -m tests.test_redact_needles`"


if __name__ == "__main__":
    text = "".join(f"    {needle!r},\n" for needle in derived())
    Path(redact_needles.__file__).write_text(HEAD + text + TAIL, encoding="utf-8")
