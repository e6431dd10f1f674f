"""An agent as anybody would write one: reads the prompt, does what its first word says, reports."""

import json
import os
import sys

prompt = sys.stdin.read()


def say(line: object) -> None:
    os.write(1, f"{line if isinstance(line, str) else json.dumps(line)}\n".encode())


match prompt.split()[0]:
    case "echo":
        say(prompt)
        say({"done": True, "tokens": 12, "usd": 0.01, "say": "as you say"})
    case "plain":
        say("just\nwords, and {braces}")
    case "environment":
        say(dict(os.environ))
    case "sleep":
        say({"sleep_ms": 60_000, "say": "the build takes a while"})
    case "spend":
        for tokens in range(10, 10_000_000, 10):
            say({"tokens": tokens})
    case "fail":
        say("I tried")
        sys.exit("no room on the disk")
    case "confess":
        say({"error": "Overloaded", "tokens": 3})
    case "crash":
        os.abort()
    case "chatter":
        for number in range(100_000):
            say(f"line {number}")
