"""Import path of 0.1, kept until 0.3: use `fleetlore.events.installed_kinds`."""

from fleetlore.events.installed_kinds import KINDS as KINDS
from fleetlore.events.installed_kinds import check_kind as check_kind
from fleetlore.events.installed_kinds import check_kinds as check_kinds
from fleetlore.events.installed_kinds import combine_version as marked  # noqa: F401 (name in 0.1)
from fleetlore.events.installed_kinds import installed_beats as beats  # noqa: F401 (name in 0.1)
