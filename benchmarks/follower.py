"""A separate process that follows a log and reports how long each event took to reach it.

`python -m benchmarks.follower URL COUNT [SCOPE]`: prints `ready` on the first event, then a JSON list with the microseconds between the
`sent` of each event and its arrival. Both processes read the same monotonic clock.
"""

from __future__ import annotations

import sys
from itertools import islice
from time import monotonic_ns

import msgspec

from fleetlore import connect


def main(url: str, count: int, scope: str = "town") -> None:
    with connect(url).blocking() as log:
        arriving = log.follow(scope, after=log.head())
        print("waiting", flush=True)
        next(arriving)
        print("ready", flush=True)
        delays = [(monotonic_ns() - event.data["sent"]) / 1000 for event in islice(arriving, count)]
    print(msgspec.json.encode(delays).decode(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
