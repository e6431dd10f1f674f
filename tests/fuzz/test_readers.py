"""Whatever a reader is given, it understands or refuses in our own words, and takes no longer than the size of it allows."""

from __future__ import annotations

from contextlib import suppress
from time import thread_time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.mutants import long_ones, mutants
from tests.fuzz.readers import READERS, Reader

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # of `re`, about expressions that people write
every_reader = pytest.mark.parametrize("reader", READERS, ids=[reader.name for reader in READERS])
SOME = settings(max_examples=min(100, max(1, settings().max_examples // 12)), suppress_health_check=list(HealthCheck))
"""A part of what the profile says: there are many readers."""
LONG = 50_000
MOST_SECONDS = 10.0
"""Of a processor, for that many bytes: a hundred times what the slowest needs, and nothing to what a search gone wild would."""


@every_reader
def test_a_sample_is_understood(reader: Reader) -> None:
    for sample in reader.samples:
        with suppress(*reader.refuses):
            reader.read(sample)
            return
    pytest.fail("none of the samples is understood: nothing made of them would reach far")


@every_reader
@SOME
@given(data=st.data())
def test_whatever_it_is_given_it_understands_or_refuses(reader: Reader, data: st.DataObject) -> None:
    raw = data.draw(mutants(reader.samples) | st.binary(max_size=60))
    with suppress(*reader.refuses):
        reader.read(raw)


@every_reader
@settings(SOME, max_examples=max(1, settings().max_examples // 100))
@given(data=st.data())
def test_however_long_it_is_an_answer_comes(reader: Reader, data: st.DataObject) -> None:
    raw = data.draw(long_ones(reader.samples, LONG))
    start = thread_time()
    with suppress(*reader.refuses):
        reader.read(raw)
    assert thread_time() - start < MOST_SECONDS
