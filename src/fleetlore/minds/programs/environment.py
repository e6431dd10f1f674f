"""Import path of 0.1, kept until 0.3: use `fleetlore.process.environment`."""

from fleetlore.process.environment import (
    CERTIFICATES as CERTIFICATES,
)
from fleetlore.process.environment import (
    HOUSE as HOUSE,
)
from fleetlore.process.environment import (
    MARK as MARK,
)
from fleetlore.process.environment import (
    PROXIES as PROXIES,
)
from fleetlore.process.environment import (
    carries as carries,
)
from fleetlore.process.environment import (
    marked as marked,
)
from fleetlore.process.environment import (
    scrubbed as scrubbed,
)
