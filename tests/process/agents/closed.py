"""Closes stdout and lives on: `closed.py` until it is ended, `closed.py soon` until its stdin ends."""

import os
import signal
import sys

os.write(1, b"that was all\n")
os.close(1)
if sys.argv[1:] == ["soon"]:
    while os.read(0, 65_536):
        pass
else:
    signal.pause()
