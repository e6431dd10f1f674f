"""Import path of 0.1, kept until 0.3: use `fleetlore.process.run`."""

from fleetlore.process.run import OnLine as OnLine
from fleetlore.process.run import OnStart as OnStart
from fleetlore.process.run import ProcessSpec, ProgramResult
from fleetlore.process.run import run as run

Finished = ProgramResult
Program = ProcessSpec
