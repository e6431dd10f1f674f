"""`lore` with a home of its own, as in the tests of commands."""

from tests.cli.conftest import lore as lore
