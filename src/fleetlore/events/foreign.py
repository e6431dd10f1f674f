"""Import path of 0.1, kept until 0.3: use `fleetlore.events.installed_kinds`."""

from fleetlore.events.installed_kinds import KINDS as KINDS
from fleetlore.events.installed_kinds import beats as beats
from fleetlore.events.installed_kinds import check_kind as check_kind
from fleetlore.events.installed_kinds import check_kinds as check_kinds
from fleetlore.events.installed_kinds import marked as marked
