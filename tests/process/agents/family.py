"""Starts a child, one in a session of its own, a daemon (forked twice), and a child that clears its environment; then stays or goes.

Prints the id of each, a line each. `family.py stay|go`.
"""

import os
import signal
import subprocess
import sys


def plain() -> None:
    report()


def session() -> None:
    os.setsid()
    report()


def daemon() -> None:
    os.setsid()
    if os.fork():
        os._exit(0)
    os.chdir("/")
    report()


def report() -> None:
    os.write(1, b"%d\n" % os.getpid())
    os.write(ready, b".")
    while True:
        signal.pause()


waiting, ready = os.pipe()
for child in (plain, session, daemon):
    if os.fork() == 0:
        child()
bare = subprocess.Popen(["sleep", "600"], env={}, start_new_session=True)
os.write(1, b"%d\n" % bare.pid)
for _ in range(3):
    os.read(waiting, 1)
if sys.argv[1] == "stay":
    os.write(1, b"ready\n")
    signal.pause()
else:
    bare.kill()
os._exit(0)
