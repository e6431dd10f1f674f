"""For every line that it reads it starts a child that nothing but its parent tells from others, and prints its id. Says `ready` first."""

import os
import subprocess
import sys

os.write(1, b"ready\n")
for _ in sys.stdin:
    child = subprocess.Popen(["sleep", "600"], env={}, start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    os.write(1, b"%d\n" % child.pid)
