"""Test the delays; exit code 1 if one is wrong."""

import runpy
import sys

EXPECTED = {1: 30, 2: 60, 3: 120, 4: 240}

delay = runpy.run_path("retry.py")["delay"]
failed = [attempt for attempt, seconds in EXPECTED.items() if delay(attempt) != seconds]
for attempt in failed:
    sys.stdout.write(f"FAILED test_delay[{attempt}]: expected {EXPECTED[attempt]} s, got {delay(attempt)} s\n")
sys.stdout.write(f"{len(failed)} failed, {len(EXPECTED) - len(failed)} passed\n")
sys.exit(1 if failed else 0)
