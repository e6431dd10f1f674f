"""Import path of 0.1, kept until 0.3: use `fleetlore.compat.nexus`."""

from fleetlore.compat.nexus import FOLDER as FOLDER
from fleetlore.compat.nexus import AgentEvent as AgentEvent
from fleetlore.compat.nexus import ChronicleWriter as ChronicleWriter
from fleetlore.compat.nexus import EventKind as EventKind
from fleetlore.compat.nexus import event_from_commit as event_from_commit
from fleetlore.compat.nexus import event_from_gitea_issue as event_from_gitea_issue
from fleetlore.compat.nexus import event_from_heartbeat as event_from_heartbeat
