"""`python -m simulation`."""

import sys

from simulation.run import main

sys.exit(main())
