"""Whole texts over HTTP: of events that a reader may see, and of no others."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from fleetlore import Event
from tests.server.serving import Served, serve

LONG = "All work <script>alert(1)</script> and no play. " * 1000
DIGEST = sha256(LONG.encode()).hexdigest()
IDS = [f"0190b6a0-0000-7000-8000-00000000000{n}" for n in range(4)]
RUN = "0b5e1111-2222-4333-8444-555555555555"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serve(tmp_path) as made:
        yield made


def long_event(id: str, **fields: Any) -> Event:
    return Event(id=id, **({"kind": "tool.returned", "actor": "ada", "data": {"tool": "Bash", "output": LONG}} | fields))


def test_the_whole_text_is_plain_text(served: Served) -> None:
    served.log.append([long_event(IDS[0])])
    answer = served.get(f"/api/events/{IDS[0]}/texts/{DIGEST}")
    assert (answer.status, answer.body.decode()) == (200, LONG)
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("event", "digest"),
    [
        (long_event(IDS[0], visibility="private"), DIGEST),
        (long_event(IDS[0], kind="agent.thought", text="hm", data={"output": LONG}), DIGEST),
        (long_event(IDS[0]), sha256(b"another").hexdigest()),
        (long_event(IDS[1]), DIGEST),
        (long_event(IDS[0], data={"tool": "Bash", "output": "short"}), DIGEST),
    ],
    ids=["private", "a thought that is not marked", "a digest that it does not name", "no such event", "nothing was cut"],
)
def test_no_other_text_is_given(served: Served, event: Event, digest: str) -> None:
    served.log.append([event])
    assert served.get(f"/api/events/{IDS[0]}/texts/{digest}").status == 404


def test_an_event_that_names_the_text_of_a_private_one_does_not_give_it(served: Served) -> None:
    served.log.append([long_event(IDS[0], visibility="private")])
    [private] = served.log.get([IDS[0]])
    forged = Event(id=IDS[1], kind="agent.spoke", actor="eve", text="hello", origin=private.origin)
    assert served.post("/api/events", forged).status == 200
    assert served.get(f"/api/events/{IDS[1]}/texts/{DIGEST}").status == 404


def test_an_erased_text_is_gone(served: Served) -> None:
    served.log.append([long_event(IDS[0])])
    served.log.erase([IDS[0]], "asked to")
    assert served.get(f"/api/events/{IDS[0]}/texts/{DIGEST}").status == 404


@pytest.mark.parametrize("path", ["/api/events/x/texts/y", f"/api/events/{IDS[0]}/texts/..%2f..", f"/api/events/%00/texts/{DIGEST}"])
def test_nonsense_is_not_found(served: Served, path: str) -> None:
    assert served.get(path).status == 404


def test_evidence_reads_the_end_of_a_long_output(served: Served) -> None:
    """The end of an output says how it ended; the event has only its beginning."""
    output = "collecting ...\n" * 3000 + "=== 1 failed, 41 passed ==="
    called = Event(id=IDS[0], kind="tool.called", actor="ada", run=RUN, data={"tool": "Bash", "input": {"command": "pytest"}})
    result = {"tool": "Bash", "output": output, "output_end": output[-2000:]}
    returned = Event(id=IDS[1], kind="tool.failed", actor="ada", run=RUN, cause=IDS[0], data=result)
    served.log.append([called, returned])
    [item] = served.view("evidence", id=IDS[0])["items"]
    assert item["output"].endswith("=== 1 failed, 41 passed ===")
    assert item["output"].count("1 failed") == 1
    assert len(item["output"]) < len(output)
