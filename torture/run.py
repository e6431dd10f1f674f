"""Long runs of the fault tests: power cuts, kills, many processes and thousands of invalid requests. Prints lines for docs/benchmarks.md.

`make torture` runs it; exits non-zero if anything acknowledged was lost, doubled or torn.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parents[1]))

import apsw
from playwright.sync_api import expect, sync_playwright
from simulation.run import print_violation, run_seeds
from tests.browser import conftest, test_restart
from tests.browser.control_room import room_in
from tests.faults import damage, test_goal_kills, test_kill, test_many_processes, test_power_cut, test_servers, test_up, writer
from tests.server.probing import probe
from tests.server.serving import serve
from tests.stage import test_resume

from fleetlore.cli.demo.command import record_story
from fleetlore.cli.demo.fleet import write_story
from fleetlore.errors import FleetloreError
from fleetlore.log.sqlite import maintenance
from torture.databases import attack_databases
from torture.fuzz import fuzz
from torture.leader_kills import kill_leaders
from torture.model import ask_a_real_model, run_runtimes
from torture.programs import check_programs
from torture.soak import soak
from torture.towns import BACKENDS, kill_towns

CUTS_PER_STORY = 100


def cut_power(folder: Path, seed: int, cuts: int) -> str:
    """Power cuts in many stories; a few long ones among them, so that the WAL is written back often."""
    operations, appends = 0, 0
    for number, start in enumerate(range(0, cuts, CUTS_PER_STORY)):
        place = folder / f"story-{number}"
        place.mkdir()
        story = test_power_cut.write_story(place, seed + number, appends=1500 if number % 10 == 9 else 450)
        wrong = test_power_cut.failures(story, place, seed + number, min(CUTS_PER_STORY, cuts - start))
        assert not wrong, "; ".join(wrong[:3])
        operations, appends = operations + len(story.operations), appends + len(story.appends)
    return f"{cuts} power cuts in {operations} disk operations of {appends} appends: nothing acknowledged lost, nothing torn"


def lose_without_sync(folder: Path, seed: int, cuts: int) -> str:
    """The same on a log that does not sync: the test must notice."""
    story = test_power_cut.write_story(folder, seed, sync="off", appends=300)
    lost = [wrong for wrong in test_power_cut.failures(story, folder, seed, cuts) if "lost" in wrong]
    assert lost, "no power cut was noticed on a log that never syncs"
    return f"with ?sync=off, as it must be, {len(lost)} of {cuts} cuts lose something"


def kill_writers(folder: Path, seed: int, kills: int) -> str:
    """`kill -9`, shared out among the ways to write."""
    acknowledged = 0
    for number, mode in enumerate(writer.MODES):
        share = kills // len(writer.MODES) + (number < kills % len(writer.MODES))
        acknowledged += test_kill.torment(folder, mode, seed, share, per_file=5)
    return f"{kills} writers killed with -9 after {acknowledged} acknowledged appends: none lost, none twice, none by half"


def gather_crowds(folder: Path, rounds: int, count: int) -> str:
    """Eight writers and two followers, again and again."""
    events = 0
    for number in range(rounds):
        path = folder / f"crowd-{number}.db"
        stored, seen = test_many_processes.crowd(path, count)
        test_many_processes.check_order(stored, seen, count)
        assert maintenance.check_log(str(path)).problems == []
        events += len(stored)
    return f"{rounds} crowds of eight writers and two followers, {events} events: one order, no gap, nothing twice"


def kill_servers(folder: Path, seed: int, kills: int) -> str:
    """Both servers, each killed under two writers and two followers."""
    recorded = []
    for make in (test_servers.valkey, test_servers.nats):
        with make(folder / make.__name__) as server:
            acknowledged = test_servers.kill_and_start(server, kills, Random(seed))
        recorded.append(f"{make.__name__} killed with -9 {kills} times under {acknowledged} acknowledged events")
    return f"{', '.join(recorded)}: none lost, none twice, followers complete and in order"


def damage_files(folder: Path, seed: int, damages: int) -> str:
    """Random damage to a log of 20,000 events: flipped bits, pages of noise or zeros, files that are cut off."""
    original, rng = damage.write_log(folder / "original.db", 20_000), Random(seed)
    findings = [damage.try_damage(original, damage.WAYS[n % len(damage.WAYS)], rng, folder) for n in range(damages)]
    damage.assert_survived(findings)
    share = min(found.saved / max(1, found.undamaged) for found in findings)
    noticed, harmless = sum(found.noticed for found in findings), sum(found.harmless for found in findings)
    hit = f"{noticed} noticed, {harmless} in unused bytes"
    return f"{damages} random damages of a log: {hit}; salvage returned at least {share:.2%} of what was not hit"


def kill_drivers(folder: Path) -> str:
    """A goal of ten turns, its driver killed at every write, before it and after it."""
    kills, repeated = test_goal_kills.torment(folder)
    recorded = f"{repeated} turns were taken again, and the log says so of each"
    return f"drivers of a goal of ten turns killed with -9 {kills} times, before and after every write: the same end each time; {recorded}"


def kill_stages(folder: Path, seed: int, runs: int) -> str:
    """The process that runs a scene, and the one that resumes it."""
    killed = test_resume.torment(folder, seed, runs)
    return f"{runs} runs of a stage, their players killed with -9 {killed} times: each came to its end, no turn was taken twice"


def kill_up(folder: Path, seed: int, kills: int) -> str:
    """`lore up`, killed while 10,000 events are being posted and a stream is open."""
    stored = test_up.torment(folder, seed, kills)
    return f"`lore up` killed with -9 {kills} times amid posts of 10,000, {stored} events: none lost, none twice, nor on a stream"


def simulate(seed: int, seeds: int) -> str:
    """The whole system in virtual time, with faults; `python -m torture.put_back` shows what it would find."""
    totals = run_seeds(range(seed, seed + seeds), report=print_violation)
    assert not totals.failed_seeds, f"seeds that broke a promise: {totals.failed_seeds[:10]}"
    return totals.describe().replace("\n", "; ")


def probe_server(folder: Path, seed: int, examples: int) -> str:
    """Every path of the server's OpenAPI document, asked rightly and wrongly."""
    with serve(folder) as served:
        list(record_story(served.log, write_story(seed), speed=0))
        probed = probe(served, examples=examples, seed=seed)
    assert not probed.findings, "; ".join(probed.findings[:3])
    return f"{probed.checks} checks by schemathesis of {len(probed.operations)} operations of the server: nothing found"


def restart_control_room(folder: Path, restarts: int) -> str:
    """A page that stays open while its server comes and goes and agents work on."""
    if not os.access(conftest.CHROMIUM, os.X_OK):
        return f"no control room was restarted: there is no browser at {conftest.CHROMIUM}"
    expect.set_options(timeout=60_000)
    with room_in(folder) as room, sync_playwright() as playwright, conftest.launch(playwright) as browser:
        page = browser.new_page()
        page.goto(f"{room.start().url}/events")
        events = test_restart.restart_under_load(room, page, restarts)
    return f"the control room closed and opened {restarts} times under {events} events, with a page open: none lost there, none twice"


def run(what: Callable[[Path], str]) -> bool:
    """One kind of torture in a folder of its own; whether the log stood it."""
    start = perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        try:
            line, sound = what(Path(folder)), True
        except (AssertionError, FleetloreError) as error:
            line, sound = f"FAILED: {error!r}", False
    today = datetime.now(UTC).date()
    print(f"- {today} · {line} ({perf_counter() - start:.0f} s)", flush=True)
    return sound


def main() -> int:
    """All of it."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--cuts", type=int, default=5000, help="power cuts")
    options.add_argument("--kills", type=int, default=200, help="writers killed")
    options.add_argument("--server-kills", type=int, default=50, help="times that each server is killed")
    options.add_argument("--leader-kills", type=int, default=20, help="times that the leader of a NATS cluster is killed")
    options.add_argument("--damages", type=int, default=60, help="log files damaged at random")
    options.add_argument("--restarts", type=int, default=50, help="times that the control room is closed and opened")
    options.add_argument("--up-kills", type=int, default=50, help="times that `lore up` is killed amid posts")
    options.add_argument("--stages", type=int, default=50, help="runs of a stage whose players are killed")
    options.add_argument("--missions", type=int, default=20, help="missions on each backend whose workers are killed")
    options.add_argument("--rounds", type=int, default=10, help="crowds of ten processes")
    options.add_argument("--count", type=int, default=400, help="appends of each writer in a crowd")
    options.add_argument("--examples", type=int, default=300, help="questions to each path of the server, besides those at the limits")
    options.add_argument("--questions", type=int, default=40, help="objects that are wanted of a real small model, with and without help")
    options.add_argument("--statements", type=int, default=3000, help="statements by chance that a database is asked")
    options.add_argument("--soak", type=float, default=30, metavar="MINUTES", help="how long two hundred agents work on one server")
    options.add_argument("--fuzz", type=float, default=30, metavar="MINUTES", help="how long readers are fed with damaged samples")
    options.add_argument("--simulated", type=int, default=10_000, help="seeds of the simulation")
    options.add_argument("--seed", type=int, default=1, help="where chance starts")
    chosen = options.parse_args()
    print(f"SQLite {apsw.sqlite_lib_version()}, Python {platform.python_version()}, {platform.system()}, seed {chosen.seed}")
    sound = [
        run(lambda folder: simulate(chosen.seed, chosen.simulated)),
        run(lambda folder: cut_power(folder, chosen.seed, chosen.cuts)),
        run(lambda folder: lose_without_sync(folder, chosen.seed, max(20, chosen.cuts // 50))),
        run(lambda folder: kill_writers(folder, chosen.seed, chosen.kills)),
        run(lambda folder: gather_crowds(folder, chosen.rounds, chosen.count)),
        run(lambda folder: kill_servers(folder, chosen.seed, chosen.server_kills)),
        run(lambda folder: kill_leaders(folder / "cluster", chosen.leader_kills)),
        run(lambda folder: damage_files(folder, chosen.seed, chosen.damages)),
        run(lambda folder: restart_control_room(folder, chosen.restarts)),
        run(lambda folder: ask_a_real_model(folder, chosen.questions)),
        run(run_runtimes),
        run(check_programs),
        run(lambda folder: kill_up(folder, chosen.seed, chosen.up_kills)),
        run(kill_drivers),
        run(lambda folder: kill_stages(folder, chosen.seed, chosen.stages)),
        *(run(partial(kill_towns, backend=name, seed=chosen.seed, missions=chosen.missions)) for name in BACKENDS),
        run(lambda folder: probe_server(folder, chosen.seed, chosen.examples)),
        run(lambda folder: attack_databases(folder, chosen.seed, chosen.statements)),
        run(lambda folder: soak(folder, chosen.soak, chosen.seed)),
        run(lambda folder: fuzz(folder, chosen.fuzz)),
    ]
    return 0 if all(sound) else 1


if __name__ == "__main__":
    raise SystemExit(main())
