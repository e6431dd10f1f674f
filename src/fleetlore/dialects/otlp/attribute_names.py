"""Attribute names with the same meaning in OpenTelemetry, OpenLLMetry, OpenInference, Langfuse and Vercel's AI SDK."""

from __future__ import annotations

import re
from collections.abc import Mapping

from fleetlore.dialects.fields import as_name, as_object, as_text
from fleetlore.dialects.otlp.messages import find_prompt_text
from fleetlore.dialects.otlp.values import Attributes, OtlpSpan, decode_nested_json, get_first, get_first_name, parse_count, parse_number
from fleetlore.dialects.wire import Record
from fleetlore.events.ids import find_uuid

MODEL_ROLE, AGENT_ROLE, TOOL_ROLE, AGENT_CREATED_ROLE = "model", "agent", "tool", "created"

CONVERSATION_IDS = (
    "gen_ai.conversation.id",
    "session.id",
    "ai.telemetry.metadata.sessionId",
    "traceloop.association.properties.session_id",
    "langfuse.session.id",
)
AGENT_NAMES = ("gen_ai.agent.name", "agent.name", "agent_name", "gen_ai.agent.id")
AGENT_SPAN_NAMES = (
    "gen_ai.agent.name",
    "agent.name",
    "agent_name",
    "gen_ai.workflow.name",
    "traceloop.entity.name",
    "ai.telemetry.functionId",
    "gen_ai.agent.id",
)
MODEL_NAMES = (
    "gen_ai.response.model",
    "llm.response.model_name",
    "ai.response.model",
    "gen_ai.request.model",
    "llm.model_name",
    "llm.request.model_name",
    "embedding.model_name",
    "ai.model.id",
    "llm.request.model",
    "langfuse.observation.model.name",
    "model_name",
)
PROVIDERS = ("gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system", "ai.model.provider", "llm.vendor")
TOOL_NAMES = ("gen_ai.tool.name", "tool.name", "ai.toolCall.name", "mcp.tool.name")
CALL_IDS = ("gen_ai.tool.call.id", "ai.toolCall.id", "tool_call.id", "tool.id")
TOOL_INPUTS = (
    "gen_ai.tool.call.arguments",
    "tool_arguments",
    "ai.toolCall.args",
    "ai.toolCall.input",
    "input.value",
    "traceloop.entity.input",
    "langfuse.observation.input",
)
TOOL_OUTPUTS = (
    "gen_ai.tool.call.result",
    "tool_response",
    "ai.toolCall.result",
    "ai.toolCall.output",
    "output.value",
    "traceloop.entity.output",
    "langfuse.observation.output",
)
RESPONSE_IDS = ("gen_ai.response.id", "ai.response.id", "llm.response.id")
STOP_REASONS = ("gen_ai.response.finish_reasons", "llm.finish_reason", "ai.response.finishReason", "llm.response.finish_reason")
COSTS = ("gen_ai.usage.cost", "llm.cost.total", "operation.cost", "gen_ai.cost.total")

_INPUT_TOKENS = (
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "llm.token_count.prompt",
    "llm.usage.prompt_tokens",
    "ai.usage.inputTokens",
    "ai.usage.promptTokens",
    "ai.usage.tokens",
)
_OUTPUT_TOKENS = (
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.token_count.completion",
    "llm.usage.completion_tokens",
    "ai.usage.outputTokens",
    "ai.usage.completionTokens",
)
_CACHE_READ_TOKENS = (
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "gen_ai.usage.input_tokens.cached",
    "gen_ai.usage.details.cache_read_tokens",
    "gen_ai.usage.details.cache_read_input_tokens",
    "llm.token_count.prompt_details.cache_read",
    "ai.usage.inputTokenDetails.cacheReadTokens",
    "ai.usage.cachedInputTokens",
)
_CACHE_WRITE_TOKENS = (
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_creation_input_tokens",
    "gen_ai.usage.input_tokens.cache_write",
    "gen_ai.usage.details.cache_write_tokens",
    "gen_ai.usage.details.cache_creation_input_tokens",
    "llm.token_count.prompt_details.cache_write",
    "ai.usage.inputTokenDetails.cacheWriteTokens",
)

_TOKEN_ATTRIBUTES = {"input": _INPUT_TOKENS, "read": _CACHE_READ_TOKENS, "write": _CACHE_WRITE_TOKENS, "output": _OUTPUT_TOKENS}

_ROLE_BY_OPERATION: Mapping[str, str] = {
    **dict.fromkeys(("chat", "text_completion", "generate_content", "embeddings"), MODEL_ROLE),
    **dict.fromkeys(("invoke_agent", "invoke_workflow"), AGENT_ROLE),
    "create_agent": AGENT_CREATED_ROLE,
    "execute_tool": TOOL_ROLE,
}
_ROLE_BY_OPENINFERENCE_KIND: Mapping[str, str] = {
    "llm": MODEL_ROLE,
    "embedding": MODEL_ROLE,
    "agent": AGENT_ROLE,
    "tool": TOOL_ROLE,
    "chain": "",
    "unknown": "",
}
_ROLE_BY_LANGFUSE_TYPE: Mapping[str, str] = {
    **dict.fromkeys(("generation", "embedding"), MODEL_ROLE),
    **dict.fromkeys(("span", "event", "chain"), ""),
    "agent": AGENT_ROLE,
    "tool": TOOL_ROLE,
}
_LANGFUSE_USAGE, _LANGFUSE_COST = "langfuse.observation.usage_details", "langfuse.observation.cost_details"
_LANGFUSE_TOKEN_KEYS = {
    "input": ("input", "input_tokens", "prompt_tokens"),
    "output": ("output", "output_tokens", "completion_tokens"),
    "read": ("cache_read_input_tokens", "input_cached_tokens", "input_cache_read"),
    "write": ("cache_creation_input_tokens", "input_cache_creation"),
}
_ROLE_BY_TRACELOOP_KIND: Mapping[str, str] = {"workflow": AGENT_ROLE, "agent": AGENT_ROLE, "tool": TOOL_ROLE, "task": ""}
_METHOD_SUFFIX = re.compile(r"\.(?:run|arun|_?execute\w*|kickoff\w*|invoke|ainvoke|_call)$")
"""Of span names made of an agent and its method: `smol.run`, `Forecaster._execute_core`."""
_VERCEL_INNER_SUFFIXES = (".doGenerate", ".doStream", ".doEmbed")
_VERCEL_OUTER_NAMES = ("ai.generateText", "ai.streamText", "ai.generateObject", "ai.streamObject")


_PROMPT_MARK = "input.value"
_KEPT_OF_PARENTS = frozenset(
    (
        *TOOL_NAMES,
        *_INPUT_TOKENS,
        *_OUTPUT_TOKENS,
        "ai.operationId",
        "gen_ai.operation.name",
        "openinference.span.kind",
        "traceloop.span.kind",
        "langfuse.observation.type",
        "llm.request.type",
        "gen_ai.request.model",
        "graph.node.parent_id",
        _LANGFUSE_USAGE,
    )
)
_KEPT_OF_ALL = frozenset((*CONVERSATION_IDS, "service.name"))


def find_span_role(span: OtlpSpan) -> str | None:
    """Return a span's role: model, agent, tool or another operation; `None` if it is not about agents."""
    for find in (_find_vercel_role, _find_operation_role, _find_role_by_kind):
        if (role := find(span.attributes)) is not None:
            return None if role == AGENT_ROLE and _is_only_a_group(span) else role or None
    return None


def _is_only_a_group(span: OtlpSpan) -> bool:
    """Whether OpenInference calls a span an agent that is none: a node of LangGraph, or a workflow around agents."""
    attributes = span.attributes
    if "openinference.span.kind" not in attributes or get_first(attributes, AGENT_SPAN_NAMES):
        return False
    metadata = _read_metadata(attributes)
    if metadata.get("langgraph_node") == span.name and metadata.get("lc_agent_name") != span.name:
        return True
    return not metadata and not any(key.startswith(("input.", "output.", "llm.", "graph.node.")) for key in attributes)


def _read_metadata(attributes: Attributes) -> Record:
    return as_object(decode_nested_json(attributes.get("metadata")))


def _find_vercel_role(attributes: Attributes) -> str | None:
    """The outer span of a call sums up the inner ones, so only the inner ones are model calls."""
    operation = as_text(attributes.get("ai.operationId"))
    if operation is None:
        return None
    if operation.endswith(_VERCEL_INNER_SUFFIXES):
        return MODEL_ROLE
    return TOOL_ROLE if operation == "ai.toolCall" else AGENT_ROLE if operation in _VERCEL_OUTER_NAMES else ""


def _find_operation_role(attributes: Attributes) -> str | None:
    operation = as_text(attributes.get("gen_ai.operation.name"))
    return None if operation is None else _ROLE_BY_OPERATION.get(operation.lower(), operation.lower())


def _find_role_by_kind(attributes: Attributes) -> str | None:
    if kind := as_text(attributes.get("openinference.span.kind")):
        return _ROLE_BY_OPENINFERENCE_KIND.get(kind.lower(), kind.lower())
    if kind := as_text(attributes.get("traceloop.span.kind")):
        return _ROLE_BY_TRACELOOP_KIND.get(kind.lower(), kind.lower())
    if kind := as_text(attributes.get("langfuse.observation.type")):
        return _ROLE_BY_LANGFUSE_TYPE.get(kind.lower(), kind.lower())
    if get_first(attributes, ("gen_ai.tool.name",)):
        return TOOL_ROLE
    if get_first(attributes, ("llm.request.type", "gen_ai.request.model")):
        return MODEL_ROLE
    return AGENT_ROLE if get_first(attributes, ("gen_ai.agent.name", "agent_name")) else None


def find_span_agent_name(span: OtlpSpan) -> str | None:
    """Return the name of the agent that a span belongs to: by convention, else the agent's part of the span's name."""
    if named := get_first_name(span.attributes, AGENT_SPAN_NAMES):
        return named
    name = span.name.removeprefix("invoke_agent ").removeprefix("invoke_workflow ")
    is_name = name != span.name
    if "openinference.span.kind" in span.attributes:
        if named := as_name(_read_metadata(span.attributes).get("lc_agent_name")):
            return named
        is_name, name = True, _METHOD_SUFFIX.sub("", name)
    return (as_name(name) if is_name else None) or find_service_name(span.resource)


def find_launching_node(span: OtlpSpan) -> str | None:
    """Return the agent that handed over to this one, as OpenInference names it."""
    name = as_name(span.attributes.get("graph.node.parent_id"))
    return name if name and find_uuid(name) is None else None


def find_service_name(resource: Attributes) -> str | None:
    """Return the name of the program that sent it."""
    return get_first_name(resource, ("service.name",))


def slim_span(span: OtlpSpan) -> OtlpSpan:
    """Return what the children of a span need of it: role, names, conversation, and whether it has tokens and a prompt."""
    role = find_span_role(span)
    kept = _KEPT_OF_ALL | _KEPT_OF_PARENTS if role else _KEPT_OF_ALL
    attributes = {key: value for key, value in span.attributes.items() if key in kept and not isinstance(value, dict | list)}
    if role == AGENT_ROLE:
        attributes["gen_ai.agent.name"] = find_span_agent_name(span)
        if find_prompt_text(span):
            attributes[_PROMPT_MARK] = "…"
    resource = {key: value for key, value in span.resource.items() if key in _KEPT_OF_ALL}
    return OtlpSpan(
        trace=span.trace,
        id=span.id,
        parent=span.parent,
        name=span.name[:200],
        attributes=attributes,
        resource=resource,
        has_remote_parent=span.has_remote_parent,
    )


def extract_usage(attributes: Attributes) -> Record:
    """Return tokens and cost. The convention includes cached tokens in the input; we do not.

    If more tokens were cached than read, the source evidently excludes them, and its number is kept.
    """
    details = as_object(decode_nested_json(attributes.get(_LANGFUSE_USAGE)))
    total_input, read, write, output = (_find_token_count(attributes, details, name) for name in ("input", "read", "write", "output"))
    cached = (read or 0) + (write or 0)
    own = total_input - cached if total_input is not None and total_input >= cached else total_input
    cost = get_first(attributes, COSTS)
    usd = parse_number(as_object(decode_nested_json(attributes.get(_LANGFUSE_COST))).get("total") if cost is None else cost)
    return {
        "input": own,
        "output": output,
        "cache_read": read,
        "cache_write": write,
        "usd": float(usd) if usd is not None and usd >= 0 else None,
    }


def _find_token_count(attributes: Attributes, details: Record, name: str) -> int | None:
    found = get_first(details, _LANGFUSE_TOKEN_KEYS[name]) if details else None
    return parse_count(get_first(attributes, _TOKEN_ATTRIBUTES[name]) if found is None else found)


def has_token_counts(span: OtlpSpan) -> bool:
    """Return whether a span reports token counts."""
    details = as_object(decode_nested_json(span.attributes.get(_LANGFUSE_USAGE)))
    return (
        _find_token_count(span.attributes, details, "input") is not None
        or _find_token_count(span.attributes, details, "output") is not None
    )


def find_stop_reason(attributes: Attributes) -> str | None:
    """Return why the model stopped."""
    found = decode_nested_json(get_first(attributes, STOP_REASONS))
    return as_text(found[0] if isinstance(found, list) and found else found)
