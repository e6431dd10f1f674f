"""A dispatcher that keeps a chronicle, as written for nexus. Only the import has changed.

python examples/ancestors/nexus_chronicle.py chronicle.jsonl
"""

import sys

from fleetlore.compat.nexus import AgentEvent, ChronicleWriter, EventKind, event_from_commit, event_from_gitea_issue

chronicle = ChronicleWriter(sys.argv[1] if len(sys.argv) > 1 else None)
chronicle.ingest(event_from_gitea_issue({"number": 42, "title": "Fix the parser"}, "claude"))
chronicle.ingest(AgentEvent(EventKind.ABANDON, "claude", "issue #42: no reproduction"))
chronicle.ingest(event_from_gitea_issue({"number": 42, "title": "Fix the parser"}, "kimi"))
chronicle.ingest(event_from_commit({"sha": "0a1b2c3d4e5f", "message": "Accept empty input\n\nCloses #42."}, "kimi"))
print(chronicle.render())
print(chronicle.summary())
