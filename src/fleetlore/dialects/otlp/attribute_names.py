"""One meaning, many names: what the conventions of OpenTelemetry, OpenLLMetry, OpenInference and Vercel's AI SDK call the same thing."""

from __future__ import annotations

from collections.abc import Mapping

from fleetlore.dialects.fields import as_name, as_object, as_text
from fleetlore.dialects.otlp.values import Attributes, Span, count_of, first, name_in, number_of, unfold
from fleetlore.dialects.wire import Record

MODEL, AGENT, TOOL, CREATED = "model", "agent", "tool", "created"

CONVERSATION = (
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

_INPUT = (
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "llm.token_count.prompt",
    "llm.usage.prompt_tokens",
    "ai.usage.inputTokens",
    "ai.usage.promptTokens",
    "ai.usage.tokens",
)
_OUTPUT = (
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.token_count.completion",
    "llm.usage.completion_tokens",
    "ai.usage.outputTokens",
    "ai.usage.completionTokens",
)
_CACHE_READ = (
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "gen_ai.usage.input_tokens.cached",
    "gen_ai.usage.details.cache_read_tokens",
    "gen_ai.usage.details.cache_read_input_tokens",
    "llm.token_count.prompt_details.cache_read",
    "ai.usage.inputTokenDetails.cacheReadTokens",
    "ai.usage.cachedInputTokens",
)
_CACHE_WRITE = (
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_creation_input_tokens",
    "gen_ai.usage.input_tokens.cache_write",
    "gen_ai.usage.details.cache_write_tokens",
    "gen_ai.usage.details.cache_creation_input_tokens",
    "llm.token_count.prompt_details.cache_write",
    "ai.usage.inputTokenDetails.cacheWriteTokens",
)

_COUNTS = {"input": _INPUT, "read": _CACHE_READ, "write": _CACHE_WRITE, "output": _OUTPUT}

_OPERATIONS: Mapping[str, str] = {
    **dict.fromkeys(("chat", "text_completion", "generate_content", "embeddings"), MODEL),
    **dict.fromkeys(("invoke_agent", "invoke_workflow"), AGENT),
    "create_agent": CREATED,
    "execute_tool": TOOL,
}
_OPENINFERENCE: Mapping[str, str] = {"llm": MODEL, "embedding": MODEL, "agent": AGENT, "tool": TOOL, "chain": "", "unknown": ""}
_LANGFUSE: Mapping[str, str] = {
    **dict.fromkeys(("generation", "embedding"), MODEL),
    **dict.fromkeys(("span", "event", "chain"), ""),
    "agent": AGENT,
    "tool": TOOL,
}
_LANGFUSE_USAGE, _LANGFUSE_COST = "langfuse.observation.usage_details", "langfuse.observation.cost_details"
_DETAILS = {
    "input": ("input", "input_tokens", "prompt_tokens"),
    "output": ("output", "output_tokens", "completion_tokens"),
    "read": ("cache_read_input_tokens", "input_cached_tokens", "input_cache_read"),
    "write": ("cache_creation_input_tokens", "input_cache_creation"),
}
_TRACELOOP: Mapping[str, str] = {"workflow": AGENT, "agent": AGENT, "tool": TOOL, "task": ""}
_VERCEL_INNER = (".doGenerate", ".doStream", ".doEmbed")
_VERCEL_OUTER = ("ai.generateText", "ai.streamText", "ai.generateObject", "ai.streamObject")


def role_of(span: Span) -> str | None:
    """What a span is: of a model, an agent, a tool, another operation by its name; `None` where it is not about agents."""
    if span.name.startswith("claude_code."):
        return None  # its hooks and transcripts tell it, and count its tokens
    for find in (_by_vercel, _by_operation, _by_kind):
        if (role := find(span.attributes)) is not None:
            return role or None
    return None


def _by_vercel(attributes: Attributes) -> str | None:
    """The outer span of a call sums up the inner ones, so only those are the model's."""
    operation = as_text(attributes.get("ai.operationId"))
    if operation is None:
        return None
    if operation.endswith(_VERCEL_INNER):
        return MODEL
    return TOOL if operation == "ai.toolCall" else AGENT if operation in _VERCEL_OUTER else ""


def _by_operation(attributes: Attributes) -> str | None:
    operation = as_text(attributes.get("gen_ai.operation.name"))
    return None if operation is None else _OPERATIONS.get(operation.lower(), operation.lower())


def _by_kind(attributes: Attributes) -> str | None:
    if kind := as_text(attributes.get("openinference.span.kind")):
        return _OPENINFERENCE.get(kind.lower(), kind.lower())
    if kind := as_text(attributes.get("traceloop.span.kind")):
        return _TRACELOOP.get(kind.lower(), kind.lower())
    if kind := as_text(attributes.get("langfuse.observation.type")):
        return _LANGFUSE.get(kind.lower(), kind.lower())
    if first(attributes, ("gen_ai.tool.name",)):
        return TOOL
    if first(attributes, ("llm.request.type", "gen_ai.request.model")):
        return MODEL
    return AGENT if first(attributes, ("gen_ai.agent.name", "agent_name")) else None


def agent_span_name(span: Span) -> str | None:
    """The name of the agent that a span is the work of."""
    said = span.name.removeprefix("invoke_agent ").removeprefix("invoke_workflow ")
    is_name = said != span.name or "openinference.span.kind" in span.attributes
    return name_in(span.attributes, AGENT_SPAN_NAMES) or (as_name(said) if is_name else None) or service_of(span.resource)


def service_of(resource: Attributes) -> str | None:
    """The program that sent it."""
    return name_in(resource, ("service.name",))


def usage_of(attributes: Attributes) -> Record:
    """Tokens and cost. By the convention the input includes what came from the cache or went into it; here it does not.

    Where more was cached than read altogether, the source evidently does not include it, and its number stays.
    """
    details = as_object(unfold(attributes.get(_LANGFUSE_USAGE)))
    given, read, write, output = (_count(attributes, details, name) for name in ("input", "read", "write", "output"))
    cached = (read or 0) + (write or 0)
    own = given - cached if given is not None and given >= cached else given
    stated = first(attributes, COSTS)
    usd = number_of(as_object(unfold(attributes.get(_LANGFUSE_COST))).get("total") if stated is None else stated)
    return {
        "input": own,
        "output": output,
        "cache_read": read,
        "cache_write": write,
        "usd": float(usd) if usd is not None and usd >= 0 else None,
    }


def _count(attributes: Attributes, details: Record, name: str) -> int | None:
    found = first(details, _DETAILS[name]) if details else None
    return count_of(first(attributes, _COUNTS[name]) if found is None else found)


def is_counted(span: Span) -> bool:
    """Whether a span says how many tokens it took."""
    details = as_object(unfold(span.attributes.get(_LANGFUSE_USAGE)))
    return _count(span.attributes, details, "input") is not None or _count(span.attributes, details, "output") is not None


def stop_reason_of(attributes: Attributes) -> str | None:
    """Why the model stopped."""
    found = unfold(first(attributes, STOP_REASONS))
    return as_text(found[0] if isinstance(found, list) and found else found)
