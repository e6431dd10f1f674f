"""How it is told: what agents do with their hands. Data only; `phrases/__init__.py` tells the rules."""

from __future__ import annotations

from collections.abc import Mapping

PHRASES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "tool.called": (
        (
            "{agent} called {tool}: {text}",
            "{agent} turned to {tool}: {text}",
            "With {tool}, {agent} began this: {text}",
            "{agent} put {tool} to use: {text}",
            "The next step of {agent} was a call to {tool}: {text}",
            "A call to {tool} went out from {agent}: {text}",
            "{agent} asked this of {tool}: {text}",
        ),
        (
            "{agent} called {tool} while at work on {task}",
            "For {task}, {agent} turned to {tool}",
            "Work on {task} took {agent} to {tool}",
            "On {task}, {agent} put {tool} to use",
            "{tool} was the tool that {agent} called for {task}",
        ),
        (
            "{agent} made a call to {tool}",
            "{agent} turned to {tool} for the next step",
            "A call to {tool} went out from {agent}",
            "The next step of {agent} was {tool}",
            "{tool} was the tool that {agent} called",
        ),
        (
            "{agent} called a tool",
            "A tool call went out from {agent}",
            "{agent} turned to a tool for the next step",
            "The next step of {agent} was a tool call",
            "{agent} put a tool to use",
        ),
    ),
    "tool.returned": (
        (
            "With {tool}, {agent} changed {paths}",
            "{agent} used {tool}, and {paths} changed",
            "{tool} came back to {agent} with changes in {paths}",
            "A run of {tool} by {agent} changed {paths}",
            "The work of {agent} with {tool} left changes in {paths}",
            "{paths} changed when {agent} used {tool}",
        ),
        (
            "{agent} ran {tool}: {text}",
            "{tool} answered {agent}: {text}",
            "With {tool}, {agent} got this: {text}",
            "{agent} used {tool}, and this came back: {text}",
            "{agent} got this from {tool}: {text}",
            "{tool} returned this to {agent}: {text}",
            "{tool} ran for {agent}: {text}",
        ),
        (
            "{tool} came back to {agent} with its result",
            "{agent} had the result of {tool}",
            "A result from {tool} came in for {agent}",
            "{agent} used {tool} and got an answer",
            "The call that {agent} had made to {tool} returned",
        ),
        (
            "A tool gave {agent} its result",
            "{agent} had a result back from a tool",
            "A tool call of {agent} returned",
            "The answer from a tool reached {agent}",
            "{agent} used a tool and got an answer",
        ),
    ),
    "tool.failed": (
        (
            "{agent} ran {tool}, and it failed: {text}",
            "{tool} failed for {agent}: {text}",
            "A call to {tool} went wrong for {agent}: {text}",
            "{agent} tried {tool}, and it went wrong: {text}",
            "{tool} did not work for {agent}: {text}",
            "With {tool}, {agent} ran into an error: {text}",
            "{agent} got an error from {tool}: {text}",
        ),
        (
            "{agent} used {tool} and met an error: {error}",
            "{tool} gave {agent} an error: {error}",
            "The call that {agent} made to {tool} failed: {error}",
            "An error came back from {tool} to {agent}: {error}",
            "{agent} got no result from {tool}, only an error: {error}",
        ),
        (
            "{tool} failed for {agent} with exit code {exit_code}",
            "{agent} ran {tool}, which failed at exit code {exit_code}",
            "{agent} got a failure from {tool}, with exit code {exit_code}",
            "A failure in {tool} gave {agent} the exit code {exit_code}",
            "The exit code of {tool} was {exit_code}, a failure for {agent}",
        ),
        (
            "{tool} failed for {agent}",
            "{agent} tried {tool}, and it did not work",
            "A call from {agent} to {tool} went wrong",
            "{agent} got a failure back from {tool}",
            "For {agent}, the call to {tool} ended in an error",
        ),
        (
            "A tool failed for {agent}",
            "{agent} tried a tool, and it did not work",
            "A tool call of {agent} went wrong",
            "{agent} got a failure back from a tool",
            "One of the tools of {agent} ended in an error",
        ),
    ),
    "tool.denied": (
        (
            "{agent} was not allowed to use {tool}, by word of {by}: {reason}",
            "{agent} wanted {tool}, and {by} said no: {reason}",
            "A refusal by {by} kept {agent} from {tool}: {reason}",
            "{tool} was refused to {agent} by {by}: {reason}",
            "The request of {agent} for {tool} was refused by {by}: {reason}",
        ),
        (
            "{agent} was not allowed to use {tool}: {reason}",
            "{agent} asked for {tool} and was refused: {reason}",
            "{tool} was refused to {agent}: {reason}",
            "{agent} could not use {tool}: {reason}",
            "{agent} had to do without {tool}, for this reason: {reason}",
        ),
        (
            "{agent} was not allowed to use {tool}, by word of {by}",
            "{agent} wanted to use {tool}, and {by} said no",
            "A refusal by {by} kept {agent} from {tool}",
            "{tool} was refused to {agent} by {by}",
            "The request of {agent} for {tool} was refused by {by}",
        ),
        (
            "{agent} was not allowed to use {tool}: {text}",
            "{agent} asked for {tool} and was refused: {text}",
            "{tool} was refused to {agent}: {text}",
            "{agent} could not use {tool}: {text}",
            "The use of {tool} by {agent} was refused: {text}",
        ),
        (
            "{agent} was not allowed to use {tool}",
            "{agent} asked for {tool} and was refused",
            "{tool} was refused to {agent}",
            "{agent} could not use {tool}",
            "The use of {tool} by {agent} was refused",
        ),
        (
            "{agent} was not allowed to use a tool",
            "{agent} asked for a tool and was refused",
            "A tool was refused to {agent}",
            "{agent} could not use a tool",
            "The use of a tool by {agent} was refused",
        ),
    ),
    "process.started": (
        (
            "{agent} started a program: {command}",
            "A program began to run for {agent}: {command}",
            "{agent} set this command running: {command}",
            "On behalf of {agent}, a program started: {command}",
            "This was the command that {agent} started: {command}",
        ),
        (
            "{agent} set a program going: {text}",
            "A program came up for {agent}: {text}",
            "Under {agent}, a program began: {text}",
            "{agent} began to run a program: {text}",
            "From here a program ran for {agent}: {text}",
        ),
        (
            "{agent} started a program, which ran as process {pid}",
            "A program of {agent} began as process {pid}",
            "Process {pid} began to run for {agent}",
            "{agent} set a program going under the process number {pid}",
            "The program that {agent} started took the process number {pid}",
        ),
        (
            "{agent} started a program",
            "A program began to run for {agent}",
            "{agent} set a program running",
            "Here a program of {agent} began to run",
            "One of the programs of {agent} started up",
        ),
    ),
    "process.finished": (
        (
            "A program of {agent} ended with exit code {exit_code}: {text}",
            "{agent} saw a program end, exit code {exit_code}: {text}",
            "Exit code {exit_code} closed a program of {agent}: {text}",
            "The program that ran for {agent} stopped at exit code {exit_code}: {text}",
            "For {agent} a program was over, with exit code {exit_code}: {text}",
        ),
        (
            "A program of {agent} ended: {text}",
            "The program that ran for {agent} was over: {text}",
            "{agent} had a program come to its end: {text}",
            "For {agent}, a program stopped running: {text}",
            "With a program at its end, the record of {agent} said: {text}",
        ),
        (
            "A program of {agent} ended on the signal {signal}",
            "The signal {signal} ended a program of {agent}",
            "{agent} had a program stop on the signal {signal}",
            "For {agent} a program was over, stopped by the signal {signal}",
            "The program that ran for {agent} took the signal {signal} and ended",
        ),
        (
            "A program of {agent} ended with exit code {exit_code}",
            "{agent} had a program end, and its exit code was {exit_code}",
            "Exit code {exit_code} closed a program that ran for {agent}",
            "The program that ran for {agent} stopped at exit code {exit_code}",
            "For {agent} a program was over, with exit code {exit_code}",
        ),
        (
            "A program of {agent} came to its end",
            "{agent} had a program stop running",
            "The program that ran for {agent} was over",
            "For {agent}, one program was over",
            "Here a program of {agent} ended",
        ),
    ),
    "audit.mismatch": (
        (
            "The screen did not show what {agent} believed: {text}",
            "{agent} believed one thing of the screen, and it showed another: {text}",
            "A check found the screen at odds with the belief of {agent}: {text}",
            "What {agent} took to be on the screen was not what it showed: {text}",
            "Between the screen and the belief of {agent} lay a difference: {text}",
        ),
        (
            "The screen did not show what {agent} believed it to show",
            "A check found a difference between the screen and what {agent} believed",
            "{agent} believed one thing of the screen, and the screen showed another",
            "What the screen showed and what {agent} believed did not match",
            "The screen and what {agent} believed of it were not the same",
        ),
    ),
    "audit.code_without_tool": (
        (
            "{agent} wrote code where a tool call was due: {text}",
            "A check found code from {agent} in place of a tool call: {text}",
            "Where a tool call was due, {agent} wrote code: {text}",
            "{agent} gave code and left the tool uncalled: {text}",
            "The answer of {agent} held code and no tool call: {text}",
        ),
        (
            "{agent} wrote code where a tool call was due",
            "A check found code from {agent} in place of a tool call",
            "Code from {agent} stood where a tool call was due",
            "{agent} answered in code and left the tool uncalled",
            "The answer of {agent} held code but no call to a tool",
        ),
    ),
    "audit.talk_without_action": (
        (
            "{agent} talked about a request and took no action on it: {request}",
            "This request had words from {agent} but no action: {request}",
            "A check found that {agent} met this request with talk alone: {request}",
            "In words only, {agent} answered this request: {request}",
            "{agent} answered, but did not act on, this request: {request}",
        ),
        (
            "{agent} answered a request with talk alone: {text}",
            "A request had words from {agent} and no deed: {text}",
            "A check found talk from {agent} where the request wanted action: {text}",
            "In words only, {agent} answered a request: {text}",
            "{agent} spoke to the request and took no action: {text}",
        ),
        (
            "{agent} answered a request with talk alone",
            "A request had words from {agent} and no action",
            "A check found talk from {agent} where the request wanted action",
            "In words only, {agent} answered a request",
            "{agent} spoke to a request and took no action on it",
        ),
    ),
}
"""Kind → groups of variants, best first."""

MANY: Mapping[str, tuple[str, ...]] = {
    "tool.called": (
        "{agent} called on tools {count_times} {when}",
        "{agent} made {count} tool calls {when}",
        "A tool call went out from {agent} {count_times} {when}",
        "{agent} turned to tools {count_times} {when}",
    ),
    "tool.returned": (
        "{agent} had {count} results back from tools {when}",
        "Tools came back to {agent} with a result {count_times} {when}",
        "The tool calls that came back to {agent} {when} numbered {count}",
        "{agent} used tools {count_times} {when} and had a result each time",
    ),
    "tool.failed": (
        "Tools failed for {agent} {count_times} {when}",
        "{agent} had {count} tool calls fail {when}",
        "{agent} got errors from tools {count_times} {when}",
    ),
    "tool.denied": (
        "{agent} was refused a tool {count_times} {when}",
        "{agent} asked for tools and met {count} refusals {when}",
        "Asking for tools, {agent} heard no {count_times} {when}",
    ),
    "process.started": (
        "{agent} started {count} programs {when}",
        "{agent} set {count} programs running {when}",
        "A program started for {agent} {count_times} {when}",
    ),
    "process.finished": (
        "{agent} had {count} programs come to an end {when}",
        "The programs of {agent} that ended {when} numbered {count}",
        "A program of {agent} stopped running {count_times} {when}",
    ),
    "audit.mismatch": (
        "The screen differed from what {agent} believed {count_times} {when}",
        "For {agent}, the screen and the belief of it differed {count_times} {when}",
        "Checks found the screen at odds with the belief of {agent} {count_times} {when}",
    ),
    "audit.code_without_tool": (
        "{agent} wrote code in place of a tool call {count_times} {when}",
        "There were {count} answers of {agent} {when} with code and no tool call",
        "Checks found code from {agent} where a tool call belonged {count_times} {when}",
    ),
    "audit.talk_without_action": (
        "{agent} answered requests with talk alone {count_times} {when}",
        "There were {count} requests {when} that had words from {agent} and no action",
        "Checks found talk without action from {agent} {count_times} {when}",
    ),
}
"""Kind → how a run of like events is told."""
