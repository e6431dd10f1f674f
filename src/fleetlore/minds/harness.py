"""Import path of 0.1, kept until 0.3: use `fleetlore.programs.harness`."""

from fleetlore.process.identity import Process as Process
from fleetlore.programs.harness import Ended as Ended
from fleetlore.programs.harness import Gate as Gate
from fleetlore.programs.harness import Harness as Harness
from fleetlore.programs.harness import Heard as Heard
from fleetlore.programs.harness import Order as Order
from fleetlore.programs.harness import Watch as Watch
