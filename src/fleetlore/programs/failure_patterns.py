"""Patterns of error messages of agent programs and model endpoints, and the failure that each means.

A pattern matches only at the start of a message: at the start of a line, after a colon or a status, in the `message` of an error's
JSON. The name of an error matches only where such names occur. So an agent's own sentences are not mistaken for failures.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

FailureKind: TypeAlias = Literal[
    "overflow",
    "session_lost",
    "rate_limit",
    "overloaded",
    "usage_limit",
    "network",
    "auth",
    "credit",
    "missing",
    "max_turns",
    "agent_budget",
    "interrupted",
    "timed_out",
    "silent",
    "no_result",
    "unknown",
]
FAILURE_KINDS: tuple[FailureKind, ...] = get_args(FailureKind)

# A blank means any white space, `<M>` the start of a message, `<N>` the start of an error's name.
FAILURE_WORDINGS: tuple[tuple[FailureKind, tuple[str, ...]], ...] = (
    (
        "interrupted",
        (
            r"<M>request was aborted\b",
            r"<M>\[?request interrupted by user\b",
            r"<M>interrupted \(ctrl-c\)",
            r"<M>turn (?:was )?interrupted\b",
        ),
    ),
    ("max_turns", (r"<N>error_max_turns\b", r"<M>reached max(?:imum number of)? turns \(\d", r"<M>reached max turns limit\b")),
    (
        "agent_budget",
        (r"<N>error_max_budget_usd\b", r"<M>reached maximum budget \(\$", r"<M>shared rollout token budget exhausted\b"),
    ),
    (
        "session_lost",
        (
            r"<M>no conversation found with session id\b",
            r"<M>no conversation found to continue\b",
            r"<M>session id \S{1,80} is already in use\b",
            r"<M>no rollout found for (?:thread|conversation) id\b",
            r"<M>thread not (?:found|loaded): \S",
            r"<M>thread [0-9a-f-]{8,36} not found\b",
            r"<M>(?:failed to (?:load|read|parse) )?rollout (?:at )?\S{1,300} is empty\b",
            r"<M>no (?:saved )?(?:session|transcript) found (?:with|for) (?:id|session)\b",
            r"<M>[^\n\"]{0,60}`?tool_use`? ids were found without `?tool_result`? blocks\b",
            r"<M>[^\n\"]{0,60}unexpected `?tool_use_id`? found in `?tool_result`? blocks\b",
            r"<M>(?:400 )?(?:duplicate tool_use id in conversation history|due to tool use concurrency issues)\b",
            r"<M>[^\n\"]{0,60}blocks in the latest assistant message cannot be modified\b",
        ),
    ),
    (
        "overflow",
        (
            r"<N>context_length_exceeded\b",
            r"<N>context_window_exceeded\b",
            r"<N>exceed_context_size_error\b",
            r"<N>model_context_window_exceeded\b",
            r"<M>prompt is too long\b",
            r"<M>input is too long for requested model\b",
            r"<M>conversation too long\b",
            r"<M>context limit reached\b",
            r"<M>request too large\b",
            r"<N>request_too_large\b",
            r"<M>request size exceeds model context window\b",
            r"<M>input length and `?max_tokens`? exceed context limit\b",
            r"<M>(?:codex )?ran out of room in the model's context window\b",
            r"<M>your input exceeds the context window of this model\b",
            r"<M>this model's maximum context length is \d",
            r"<M>this endpoint's maximum context length is \d",
            r"<M>the model's context length is only \d",
            r"<M>(?:the )?request (?:\(\d{1,12} tokens\) )?exceeds the available context size\b",
            r"<M>(?:the )?(?:input|prompt) (?:\(\d{1,12} tokens?\) )?(?:is longer than|exceeds) the (?:maximum )?(?:context|model)\b",
            r"<M>(?:the )?prompt size exceeds the context window size\b",
            r"<M>reached context length of \d{1,12} tokens\b",
            r"<M>context size (?:has been )?exceeded\b",
            r"<M>(?:the )?input token count (?:\(\d{1,12}\) )?exceeds the maximum number of tokens\b",
            r"<M>(?:invalid request: )?your request exceeded model token limit\b",
            r"<M>requested tokens? \(\d{1,12}\) exceed context window of \d",
            r"<M>the (?:decoder|engine) prompt \(length \d{1,12}\) is longer than the maximum model length\b",
            r"<M>trying to keep the first \d{1,12} tokens when context (?:the )?overflows\b",
            r"<M>the number of tokens to keep from the initial prompt is greater than the context length\b",
            r"<M>input tokens exceed the configured limit of \d",
            r"<M>please reduce the length of the (?:messages|prompt)\b",
        ),
    ),
    (
        "rate_limit",
        (
            r"<M>server is temporarily limiting requests\b",
            r"<N>RESOURCE_EXHAUSTED\b",
            r"<M>resource (?:has been )?exhausted\b",
            r"<M>you exceeded your current quota\b[^\n]{0,600}\bplease retry in \d",
        ),
    ),
    (
        "credit",
        (
            r"<N>insufficient_quota\b",
            r"<N>billing_not_active\b",
            r"<N>billing_hard_limit_reached\b",
            r"<N>usage_not_included\b",
            r"<M>(?:your )?credit balance (?:is )?too low\b",
            r"<M>insufficient (?:credits?|balance|funds)\b",
            r"<M>this request requires more credits\b",
            r"<M>you exceeded your current quota, please check your plan\b",
            r"<M>quota exceeded\. check your plan and billing\b",
            r"<M>(?:you're|your workspace is|you are) out of (?:usage )?credits\b",
            r"<M>you've hit your (?:org's )?monthly (?:spend|usage)? ?limit\b",
            r"<M>(?:your )?(?:org's )?(?:monthly )?spend limit reached\b",
            r"<M>your group's usage limit is set to \$0",
            r"<M>to use codex with your chatgpt plan, upgrade\b",
            r"<M>your account is not active, please check your billing\b",
        ),
    ),
    (
        "usage_limit",
        (
            r"<N>usage_limit_reached\b",
            r"<N>usage_limit_exceeded\b",
            r"<M>(?:claude (?:ai )?|claude code )?usage limit reached\b",
            r"<M>you(?:'ve| have) (?:hit|reached) (?:your|the) (?:\S{1,20} ){0,3}limits?\b",
            r"<M>(?:5-hour|session|weekly|daily|opus|sonnet|fable) (?:weekly )?limit reached\b",
            r"<M>you(?:'re| are) out of extra usage\b",
            r"<M>you have reached your specified api usage limits\b",
        ),
    ),
    (
        "rate_limit",
        (
            r"<N>rate_limit_(?:error|exceeded)\b",
            r"<M>rate limit (?:reached|exceeded)\b",
            r"<M>too many requests\b",
            r"<M>this request would exceed (?:your account's|the|your organization's) rate limit\b",
            r"<M>number of (?:request|concurrent )[^\n\"]{0,40} has exceeded your (?:rate limit|per-minute rate limit)\b",
        ),
    ),
    (
        "overloaded",
        (
            r"<N>overloaded_error\b",
            r"<N>server_(?:is_)?overloaded\b",
            r"<M>(?:repeated )?(?:529 )?overloaded(?: errors?)?[.\"']?(?:$|\s*[(·\n,}])",
            r"<M>(?:the |selected )?(?:model|engine|server|service) is (?:currently |temporarily )?(?:overloaded|at capacity|unavailable)",
            r"<M>that model is currently overloaded\b",
            r"<M>we're currently experiencing high demand\b",
            r"<M>(?:the server had an error|the server is busy|internal server error|service unavailable|bad gateway)\b",
            r"<M>no instances? available\b",
        ),
    ),
    (
        "auth",
        (
            r"<N>authentication_error\b",
            r"<N>permission_error\b",
            r"<N>invalid_api_key\b",
            r"<N>refresh_token_(?:reused|expired|invalidated)\b",
            r"<M>invalid api key\b",
            r"<M>incorrect api key provided\b",
            r"<M>invalid x-api-key\b",
            r"<M>(?:invalid )?bearer token\b[^\n]{0,40}\b(?:invalid|expired)\b",
            r"<M>oauth token (?:has expired|has been revoked|revoked)\b",
            r"<M>invalid oauth token\b",
            r"<M>not logged in\b",
            r"<M>(?:your )?session (?:has )?expired\. please run /login\b",
            r"<M>your access token could not be refreshed\b",
            r"<M>your account does not have access to claude\b",
            r"<M>this organization has been disabled\b",
            r"<M>there's an issue with the selected model\b",
            r"<M>missing (?:bearer|environment variable: `?\w{1,40}_API_KEY)\b",
            r"· (?:please )?run /login\b",
        ),
    ),
    (
        "network",
        (
            r"<M>(?:unable|failed) to connect to (?:api|anthropic services|api\.anthropic\.com)\b",
            r"(?:\b(?:read|write|connect)|[(:]) ?['\"]?E(?:CONNRESET|CONNREFUSED|CONNABORTED|TIMEDOUT|PIPE|HOSTUNREACH|NETUNREACH)\b",
            r"(?:\b(?:getaddrinfo|queryA)|[(:]) ?['\"]?E(?:NOTFOUND|AI_AGAIN)\b",
            r"<M>E(?:CONNRESET|CONNREFUSED|CONNABORTED|TIMEDOUT|PIPE|HOSTUNREACH|NETUNREACH|NOTFOUND|AI_AGAIN)\b",
            r"<M>(?:typeerror:? \(?)?fetch failed\b",
            r"<M>connection error\b",
            r"<M>the socket connection was closed unexpectedly\b",
            r"<M>connection (?:dropped|reset by peer|refused|closed mid-response)\b",
            r"<M>socket hang up\b",
            r"<M>request timed out(?:[.\"' ]|$)",
            r"<M>stream disconnected before completion\b",
            r"<M>idle timeout waiting for (?:sse|websocket)\b",
            r"<M>error sending request for url\b",
            r"<M>(?:the connection failed \(|no connection in time\b|no answer within \d)",
            r"<M>(?:temporary failure in name resolution|name or service not known|network is unreachable|could not resolve host)\b",
            r"<M>peer closed connection without sending complete message body\b",
            r"<M>remote end hung up\b",
        ),
    ),
)

_FAILURE_BY_STATUS: Mapping[int, FailureKind] = {
    401: "auth",
    402: "credit",
    403: "auth",
    407: "auth",
    408: "network",
    413: "overflow",
    429: "rate_limit",
    500: "overloaded",
    502: "overloaded",
    503: "overloaded",
    504: "overloaded",
    520: "overloaded",
    521: "overloaded",
    522: "overloaded",
    523: "overloaded",
    524: "overloaded",
    529: "overloaded",
}
_STATUS_PATTERN = re.compile(
    r"\b(?:api error|error code|status(?: code)?|http(?:/\d(?:\.\d)?)?)[:( ]{1,3}(?P<said>[45]\d\d)\b"
    r"|^[\w-]{1,40}:[\w./:-]{0,80}: (?P<ours>[45]\d\d): ",
    re.IGNORECASE | re.MULTILINE,
)

# What may come before a message: the start of a line, a colon, a status, a mark of a terminal, or `"message":"`.
_MESSAGE_START = r"(?:(?:^|\n)\s{0,20}|: ?|\b\d{3} |[·∙•■⎿│✕\]>]\s{1,4}|[\"']message[\"']: ?[\"']|\()(?:error:? )?"
_NAME_START = r"(?:(?:^|\n)\s{0,20}|[\"'(\[:=·] ?|\b\d{3} )"


def find_failure_by_text(text: str) -> FailureKind | None:
    """The failure that an error message means; `None` if it is unknown."""
    return next((complaint for complaint, pattern in _PATTERNS if pattern.search(text)), None)


def find_failure_by_status(status: int | None, text: str) -> FailureKind | None:
    """The failure that an HTTP status means: the given one, else one in the text."""
    statuses = [status] if status else [int(match["said"] or match["ours"]) for match in _STATUS_PATTERN.finditer(text)]
    return next((_FAILURE_BY_STATUS[each] for each in statuses if each in _FAILURE_BY_STATUS), None)


def _compile_wordings(wordings: tuple[str, ...]) -> re.Pattern[str]:
    spaced = [wording.replace(" ?", r"\s*").replace(" ", r"\s+") for wording in wordings]
    forms = [
        f"{before}(?:{'|'.join(found)})"
        for mark, before in (("<M>", _MESSAGE_START), ("<N>", _NAME_START), ("", ""))
        if (found := [each.removeprefix(mark) for each in spaced if each.startswith(mark) and (mark or not each.startswith("<"))])
    ]
    return re.compile("|".join(forms), re.IGNORECASE)


_PATTERNS: tuple[tuple[FailureKind, re.Pattern[str]], ...] = tuple(
    (complaint, _compile_wordings(wordings)) for complaint, wordings in FAILURE_WORDINGS
)
