"""Old import path from version 0.1, kept until 0.3. Use `fleetlore.programs.harness` instead."""

from fleetlore.process.tree import Process as Process
from fleetlore.programs.harness import Gate as Gate
from fleetlore.programs.harness import Harness as Harness
from fleetlore.programs.harness import TurnProgress, TurnRequest, TurnResult
from fleetlore.programs.harness import Watch as Watch

Ended = TurnResult
Heard = TurnProgress
Order = TurnRequest
