"""Measure what `lore sessions --json` says against labels: counts, precision and recall with 95 % intervals.

    python -m tests.truth.measure [--errors] [FOLDER ...]      (make truth)

Without a folder three sets are measured: the sessions written by hand, the 60 generated ones, and `../shared/data/sessions`
if it exists. A folder holds `*.jsonl` transcripts and `labels.jsonl`. If the package `proof-of-done` is installed, its verdicts
on tests, lint and builds are shown beside ours.
"""

import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.truth.generate import generate_sessions
from tests.truth.sessions import write_sessions
from tests.truth.transcript import write_lines

Row = dict[str, Any]
SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "sessions"
CHECKS = ("tests", "lint", "types", "build")
IDLE = {"not_run", "no_edit", "could_not_run", None}
STRONG_KINDS = {"tests_pass", "build_or_lint_ok", "committed", "pushed", "pr_opened"}
FLAGS = {
    "no_verify",
    "check_disabled",
    "test_weakened",
    "force_push",
    "destructive_command",
    "unpinned_download",
    "secret_exposed",
    "permission_bypass",
}
# The same word in several forms counts as one.
_ENDINGS = re.compile(r"(?:ing|ed|es|s)$")


class Figure(NamedTuple):
    """How often something was right."""

    right: int
    total: int

    @property
    def ratio(self) -> float:
        return self.right / self.total if self.total else 1.0

    def interval(self) -> tuple[float, float]:
        """The Wilson interval at 95 %."""
        if not self.total:
            return 0.0, 1.0
        z, n, p = 1.96, self.total, self.ratio
        middle = p + z * z / (2 * n)
        spread = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        scale = 1 + z * z / n
        return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)


class Tally:
    """Figures by name, and the disagreements behind them."""

    def __init__(self) -> None:
        self.counts: dict[str, list[int]] = {}
        self.errors: list[str] = []

    def add(self, name: str, right: int, total: int = 1) -> None:
        count = self.counts.setdefault(name, [0, 0])
        count[0] += right
        count[1] += total

    def check(self, name: str, session: str, said: object, labelled: object, *, right: bool) -> None:
        self.add(name, int(right))
        if not right:
            self.errors.append(f"{session} {name}: said {said!r}, labelled {labelled!r}")

    def figures(self) -> dict[str, Figure]:
        return {name: Figure(*count) for name, count in sorted(self.counts.items())}


def read_sessions(folder: Path) -> dict[str, Row]:
    """Import the transcripts of a folder into a fresh log and read their outcomes, by session."""
    with tempfile.TemporaryDirectory() as scratch:
        copies = Path(scratch) / "transcripts"
        copies.mkdir()
        for path in sorted(folder.glob("*.jsonl")):
            if path.name != "labels.jsonl":
                (copies / path.name).symlink_to(path.resolve())
        environment = {**os.environ, "XDG_CACHE_HOME": f"{scratch}/cache", "XDG_CONFIG_HOME": f"{scratch}/config", "NO_COLOR": "1"}
        lore = [sys.executable, "-m", "fleetlore", "--log", f"sqlite:{scratch}/log.db"]
        subprocess.run([*lore, "import", "claude-code", str(copies)], env=environment, cwd=scratch, check=True, capture_output=True)
        said = subprocess.run([*lore, "sessions", "--json", "--all"], env=environment, cwd=scratch, check=True, capture_output=True)
    rows = [json.loads(line) for line in said.stdout.splitlines() if line.strip()]
    return {str(row["session"]): row for row in rows}


def measure_folder(folder: Path, labels: Sequence[Row]) -> Tally:
    """Compare the outcomes of all labelled sessions with their labels."""
    rows, tally = read_sessions(folder), Tally()
    for label in labels:
        row = rows.get(str(label["session"]))
        tally.check("sessions", label["session"], row is not None, True, right=row is not None)
        if row is not None:
            compare_session(label, row, tally)
    return tally


def compare_session(label: Row, row: Row, tally: Tally) -> None:
    """Add one session to the tally. Only fields that are labelled are compared."""
    name = f"{str(label['session'])[:8]} {label.get('case', '')}".strip()
    if "finished" in label:
        status = row.get("status")
        tally.check("finished", name, status, label["finished"], right=(status == "finished") == bool(label["finished"]))
    if label.get("finished") and "waiting_for_person" in label:
        waits = row.get("waiting_for") == "person"
        tally.check("waiting for a person", name, waits, label["waiting_for_person"], right=waits == bool(label["waiting_for_person"]))
    if "delivered" in label:
        done, wanted = row.get("delivered") or {}, label["delivered"] or {}
        pushed = bool(done.get("pushed"))
        tally.check("pushed", name, pushed, wanted.get("pushed"), right=pushed == bool(wanted.get("pushed")))
        commits = [commit.get("subject", "") for commit in done.get("commits") or []]
        compare_lists("commits", name, commits, wanted.get("commits") or [], share_of_words, tally)
    for kind, truth in (label.get("checks_after_last_edit") or {}).items():
        if kind in CHECKS:
            said = ((row.get("checks") or {}).get(kind) or {}).get("result")
            tally.check(kind, name, said, truth, right=said == truth or {said, truth} <= IDLE)
    if "troubles" in label:
        compare_lists("troubles", name, row.get("troubles") or [], label["troubles"], _rank_call, tally, must=_is_recorded)
    if "corrections" in label:
        compare_lists("corrections", name, row.get("corrections") or [], label["corrections"], _rank_prompt, tally)
    if "red_flags" in label:
        found = [flag for flag in row.get("flags") or [] if flag.get("flag") in FLAGS]
        wanted_flags = [flag for flag in label["red_flags"] if flag.get("flag") in FLAGS]
        compare_lists("flags", name, found, wanted_flags, _rank_flag, tally)
    if "claims" in label:
        compare_claims(name, row.get("claims") or [], label["claims"], tally)


def compare_lists(
    field: str,
    session: str,
    found: Sequence[Any],
    wanted: Sequence[Any],
    rank: Callable[[Any, Any], float],
    tally: Tally,
    must: Callable[[Any], bool] = lambda item: True,
) -> None:
    """Precision over all that was found; recall over the labels that `must` be found."""
    pairs = match(found, wanted, rank)
    tally.add(f"{field} precision", len(pairs), len(found))
    needed = {place for place, item in enumerate(wanted) if must(item)}
    tally.add(f"{field} recall", len(needed & set(pairs.values())), len(needed))
    tally.errors += [f"{session} {field}: not labelled: {_say(item)}" for place, item in enumerate(found) if place not in pairs]
    tally.errors += [f"{session} {field}: missed: {_say(wanted[place])}" for place in sorted(needed - set(pairs.values()))]


def compare_claims(session: str, found: Sequence[Row], wanted: Sequence[Row], tally: Tally) -> None:
    """Whether claims are found, and whether their verdicts are right."""
    found = [claim for claim in found if claim.get("where", "answer") == "answer"]
    pairs = match(found, wanted, _rank_claim)
    by_label = {label: place for place, label in pairs.items()}
    for place, label in enumerate(wanted):
        said = found[by_label[place]] if place in by_label else None
        verdict = said["verdict"] if said else None
        if label["kind"] in STRONG_KINDS:
            tally.check("claims recall", session, None, label["text"], right=said is not None)
        is_counted = label["verdict"] == "contradicted" or (label["verdict"] == "supported" and label["kind"] in STRONG_KINDS)
        if is_counted and _is_recorded(label):
            tally.check(f"{label['verdict']} recall", session, verdict, label["text"], right=verdict == label["verdict"])
    for place, claim in enumerate(found):
        truth = wanted[pairs[place]] if place in pairs else None
        if claim["verdict"] == "contradicted":
            right = truth is not None and truth["verdict"] == "contradicted"
            tally.check("contradicted precision", session, claim["text"], truth and truth["verdict"], right=right)
        elif claim["verdict"] == "supported" and truth is not None and truth["kind"] in STRONG_KINDS:
            right = truth["verdict"] == "supported"
            tally.check("supported precision", session, claim["text"], truth["verdict"], right=right)


def match(found: Sequence[Any], wanted: Sequence[Any], rank: Callable[[Any, Any], float]) -> dict[int, int]:
    """Pair what was found with labels, best pairs first, each at most once: places in `found` to places in `wanted`."""
    ranks = [(rank(one, other), i, j) for i, one in enumerate(found) for j, other in enumerate(wanted)]
    pairs: dict[int, int] = {}
    for value, i, j in sorted(ranks, key=lambda item: (-item[0], item[1], item[2])):
        if value > 0 and i not in pairs and j not in pairs.values():
            pairs[i] = j
    return pairs


def share_of_words(one: str, other: str) -> float:
    """How many words of the shorter text are in the longer one; 0 for less than half."""
    first, second = _words(one), _words(other)
    if not first or not second:
        return 0.0
    share = len(first & second) / min(len(first), len(second))
    return share if share > 0.5 else 0.0


def _words(text: object) -> set[str]:
    return {_ENDINGS.sub("", word) for word in re.findall(r"[a-z0-9]{2,}", str(text or "").lower())}


def _sources(item: Row) -> set[str]:
    return {str(source.get("source")) for source in (item.get("evidence") or [])[:5]}


def _rank_call(found: Row, label: Row) -> float:
    shared = len(_sources(found) & set(label.get("tool_use_ids") or ()))
    return 2 * shared + share_of_words(str(found.get("what")), str(label.get("what")))


def _rank_flag(found: Row, label: Row) -> float:
    return float(len(_sources(found) & set(label.get("tool_use_ids") or ()))) if found.get("flag") == label.get("flag") else 0.0


def _rank_prompt(found: Row, label: Row) -> float:
    return float(label.get("uuid") in _sources(found)) or share_of_words(str(found.get("prompt"))[:80], str(label.get("prompt"))[:80])


def _rank_claim(found: Row, label: Row) -> float:
    share = share_of_words(str(found.get("text")), str(label.get("text")))
    same_row = label.get("uuid") in _sources(found)
    return share * (3 if same_row else 1) * (2 if found.get("kind") == label.get("kind") else 1)


def _is_recorded(label: Row) -> bool:
    return bool(label.get("by", "record") == "record")


def _say(item: Any) -> str:
    if isinstance(item, dict):
        item = f"{item.get('flag', '')} {item.get('what') or item.get('prompt') or ''}".strip()
    return str(item)[:120]


# --- proof-of-done ---------------------------------------------------------------------------------------------------

_ITS_KINDS = {
    "tests_passed": "tests_pass",
    "lint_clean": "build_or_lint_ok",
    "build_passed": "build_or_lint_ok",
    "types_clean": "build_or_lint_ok",
}


def compare_with_proof_of_done(folder: Path, labels: Sequence[Row]) -> dict[str, Figure]:
    """The same figures for `proof-of-done audit`, by session and kind; empty if it is not installed."""
    probe = subprocess.run([sys.executable, "-c", "import proof_of_done"], capture_output=True)
    if probe.returncode:
        return {}
    counts = {name: [0, 0] for name in ("claims recall", "supported precision", "supported recall", "not supported recall")}
    for label in labels:
        path = folder / f"{label['session']}.jsonl"
        wanted = [claim for claim in label.get("claims") or () if claim["kind"] in ("tests_pass", "build_or_lint_ok")]
        if not wanted or not path.exists():
            continue
        command = [sys.executable, "-m", "proof_of_done", "audit", str(path), "--format", "json"]
        said = subprocess.run(command, capture_output=True, text=True)
        report = json.loads(said.stdout) if said.returncode == 0 else {}
        for kind in ("tests_pass", "build_or_lint_ok"):
            _count_theirs(counts, report, kind, [claim for claim in wanted if claim["kind"] == kind])
    return {name: Figure(*count) for name, count in counts.items()}


def _count_theirs(counts: dict[str, list[int]], report: Row, kind: str, wanted: Sequence[Row]) -> None:
    """Its report has numbers per session and kind, not single claims: the numbers are compared."""
    rows = [row for name, row in (report.get("by_type") or {}).items() if _ITS_KINDS.get(name) == kind]
    claims, refused = sum(row["claims"] for row in rows), sum(row["unsupported"] for row in rows)
    true = sum(claim["verdict"] == "supported" for claim in wanted)
    false = len(wanted) - true
    supported = min(claims - refused, len(wanted))
    for name, right, total in (
        ("claims recall", min(claims, len(wanted)), len(wanted)),
        ("supported precision", min(supported, true), supported),
        ("supported recall", min(supported, true), true),
        ("not supported recall", min(refused, false), false),
    ):
        counts[name][0] += right
        counts[name][1] += total


# --- Report ----------------------------------------------------------------------------------------------------------


def render(title: str, figures: dict[str, Figure]) -> Iterable[str]:
    yield f"{title}"
    for name, figure in figures.items():
        low, high = figure.interval()
        ratio = f"{figure.ratio:.3f}" if figure.total else "    –"
        yield f"  {name:<26}{figure.right:>4} of {figure.total:<4} {ratio}   {low:.2f}–{high:.2f}"


def read_labels(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def main(arguments: Sequence[str]) -> int:
    with tempfile.TemporaryDirectory() as scratch:
        folders = [Path(argument) for argument in arguments if not argument.startswith("--")]
        if not folders:
            written, generated = Path(scratch) / "written by hand", Path(scratch) / "generated"
            for folder, write in ((written, write_sessions), (generated, generate_sessions)):
                folder.mkdir()
                write_lines(folder / "labels.jsonl", write(folder))
            folders = [written, generated, *([SHARED] if (SHARED / "labels.jsonl").exists() else [])]
        for folder in folders:
            labels = read_labels(folder / "labels.jsonl")
            tally = measure_folder(folder, labels)
            sys.stdout.write("\n".join(render(f"{folder.name}: {len(labels)} sessions", tally.figures())) + "\n")
            theirs = compare_with_proof_of_done(folder, labels)
            if theirs:
                sys.stdout.write("\n".join(render("  proof-of-done (tests, lint, builds)", theirs)) + "\n")
            if "--errors" in arguments:
                sys.stdout.write("\n".join(f"    {error}" for error in tally.errors) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
