"""Does not listen to SIGTERM, nor does its child; says `ready` and stays."""

import os
import signal

signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
os.write(1, b"ready\n")
while True:
    signal.pause()
