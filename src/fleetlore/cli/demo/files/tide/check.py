"""Check the tide table; exit code 1 if a time is wrong."""

import runpy
import sys

EXPECTED = {1: "06:00", 2: "06:50", 3: "07:40", 4: "08:30"}

high_water = runpy.run_path("tide.py")["high_water"]
wrong = [day for day, time in EXPECTED.items() if high_water(day) != time]
for day in wrong:
    sys.stdout.write(f"day {day}: high water at {high_water(day)}, not at {EXPECTED[day]}\n")
sys.exit(1 if wrong else 0)
