"""What the models cost, by person and week, as CSV for a spreadsheet.

python weekly_costs.py sqlite:team.db Europe/Berlin > costs.csv
"""

import csv
import sys
from collections import defaultdict
from datetime import date
from zoneinfo import ZoneInfo

from fleetlore import open_context, read_costs


def sum_by_week(url: str, zone: str) -> dict[tuple[str, str], tuple[int, float]]:
    """(Person, week) → tokens and dollars. A context uses the prices of your settings."""
    sums: dict[tuple[str, str], tuple[int, float]] = defaultdict(lambda: (0, 0.0))
    with open_context(log=url, actor="weekly-costs") as context:
        for row in read_costs(context, by=("person", "day"), zone=ZoneInfo(zone)).rows:
            day = row.keys["day"]
            week = "unknown" if day is None else "{}-W{:02}".format(*date.fromisoformat(day).isocalendar()[:2])
            key = (row.keys["person"] or "unknown", week)
            tokens, usd = sums[key]
            sums[key] = (tokens + row.tokens, usd + (row.usd or 0.0))
    return sums


if __name__ == "__main__":
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(["person", "week", "tokens", "usd"])
    for (person, week), (tokens, usd) in sorted(sum_by_week(*sys.argv[1:3]).items()):
        table.writerow([person, week, tokens, f"{usd:.2f}"])
