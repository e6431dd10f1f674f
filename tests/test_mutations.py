"""The table of hand-made mutations fits the sources. `make mutations` runs it."""

from __future__ import annotations

from torture.mutations import load_mutations


def test_every_mutation_names_text_that_is_in_the_sources_once() -> None:
    assert len(load_mutations()) >= 60
