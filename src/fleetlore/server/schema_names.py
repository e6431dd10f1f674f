"""Names of types in the OpenAPI document and in the schemas of MCP tools.

Clients may have generated code from these names, so a name stays when its class is renamed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from fleetlore.operations.request import find_aliases

PUBLISHED_NAMES: Mapping[str, str] = {
    # HTTP API
    "ControlAgents": "AgentWish",
    "AnswerGoal": "Decided",
    "ArcsPage": "Arcs",
    "ChatPost": "Message",
    "ClearSession": "Clearing",
    "CostsPage": "Costs",
    "ControlGoals": "Steering",
    "ReviewItem": "Verdict",
    "ControlMission": "MissionWish",
    "ProblemBody": "Problem",
    "AcknowledgeMessages": "UsedMessage",
    "AddNote": "NewNote",
    "AddTask": "NewTask",
    "SendMessage": "NewMessage",
    "StartMission": "NewMission",
    "SearchHits": "Found",
    "SessionCommit": "Commit",
    "SessionPage": "Session",
    "SessionsPage": "Sessions",
    "StoryPage": "Story",
    "SwitchGraph": "Switching",
    "ControlTask": "TaskWish",
    "TimelinePage": "Timeline",
    "TownPage": "Town",
    # MCP
    "AgentRow": "Agent",
    "ArcSummary": "Arc",
    "ArcsRequest": "Arcs",
    "ArcsResponse": "Arcs",
    "ChapterText": "Chapter",
    "CostRow": "Cost",
    "CostsRequest": "Costs",
    "CostsResponse": "Costs",
    "EventRow": "Event",
    "EventsRequest": "Events",
    "EventsResponse": "Events",
    "FleetRequest": "Fleet",
    "FleetResponse": "Fleet",
    "HelpCallRow": "Asking",
    "InboxRequest": "Inbox",
    "InboxResponse": "Inbox",
    "MessageRow": "Message",
    "MissionItemRow": "Item",
    "MissionNoteRow": "Note",
    "MissionRequest": "Mission",
    "MissionResponse": "Mission",
    "MissionsRequest": "Missions",
    "MissionsResponse": "Missions",
    "SearchRequest": "Search",
    "SessionRequest": "Session",
    "SessionResponse": "SessionDetail",
    "SessionsRequest": "Sessions",
    "SessionsResponse": "Sessions",
    "StoryRequest": "Story",
    "StoryResponse": "Story",
    "TaskRequest": "Task",
    "TaskResponse": "Task",
    "TasksRequest": "Tasks",
    "TasksResponse": "Tasks",
}
"""Class name → published name, where they differ."""


def published_name(kind: type) -> str:
    """The name of a type in schemas."""
    return PUBLISHED_NAMES.get(kind.__name__, kind.__name__)


def add_aliases(kind: type[Struct], schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a request with the other names of its fields, which are accepted but not preferred."""
    properties = schema.get("properties", {})
    added = {
        alias: properties[name] | {"description": f"another name of `{name}`", "deprecated": True}
        for alias, name in find_aliases(kind).items()
    }
    return schema | {"properties": dict(sorted((properties | added).items()))} if added else schema


def rename_definitions(definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Schemas by class name → the same schemas by published name, with their titles and references."""
    return {PUBLISHED_NAMES.get(name, name): rename_in_schema(schema) for name, schema in definitions.items()}


def rename_in_schema(schema: Any) -> Any:
    """A JSON schema with published names in its titles and references."""
    if isinstance(schema, list):
        return [rename_in_schema(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _rename_value(key, value) for key, value in schema.items()}


def _rename_value(key: str, value: Any) -> Any:
    if key == "title" and isinstance(value, str):  # a property called "title" has a schema instead
        return PUBLISHED_NAMES.get(value, value)
    if key == "$ref":
        path, _, name = value.rpartition("/")
        return f"{path}/{PUBLISHED_NAMES.get(name, name)}"
    return rename_in_schema(value)
