"""Follow the log, and act when a session waits for a person: here by printing a line, in your program by a message.

python watch_for_me.py sqlite:team.db            # until Ctrl-C
python watch_for_me.py sqlite:team.db 3          # until the third one
"""

import sys
from collections.abc import Iterator

from fleetlore import Outcome, connect, list_sessions


def watch_for_questions(url: str) -> Iterator[Outcome]:
    """Each session that begins to wait for a person. `follow` returns stored events first, then new ones as they come."""
    waiting: dict[str, str | None] = {}
    with connect(url).blocking() as log:
        for event in log.follow():
            if event.run is None:
                continue
            for session in list_sessions(log, scope=f"run:{event.run}"):
                if session.waiting_for is not None and waiting.get(session.session) != session.question:
                    waiting[session.session] = session.question
                    yield session


if __name__ == "__main__":
    count = int(sys.argv[2]) if len(sys.argv) > 2 else None
    for number, session in enumerate(watch_for_questions(sys.argv[1]), 1):
        print(f"{session.name} waits for {session.waiting_for}: {session.question}", flush=True)
        if number == count:
            break
