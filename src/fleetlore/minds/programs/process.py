"""Import path of 0.1, kept until 0.3: use `fleetlore.process.run`."""

from fleetlore.process.run import (
    SETTLE as SETTLE,
)
from fleetlore.process.run import (
    Finished as Finished,
)
from fleetlore.process.run import (
    OnLine as OnLine,
)
from fleetlore.process.run import (
    OnStart as OnStart,
)
from fleetlore.process.run import (
    Program as Program,
)
from fleetlore.process.run import (
    Why as Why,
)
from fleetlore.process.run import (
    run as run,
)
from fleetlore.process.run import (
    start as start,
)
from fleetlore.process.run import (
    told as told,
)
