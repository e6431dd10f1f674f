"""An agent as anybody would write one: reads the prompt, does what its first word says, reports."""

import json
import os
import sys

prompt = sys.stdin.read()


def print_line(line: object) -> None:
    os.write(1, f"{line if isinstance(line, str) else json.dumps(line)}\n".encode())


match prompt.split()[0]:
    case "echo":
        print_line(prompt)
        print_line({"done": True, "tokens": 12, "usd": 0.01, "say": "as you say"})
    case "plain":
        print_line("just\nwords, and {braces}")
    case "environment":
        print_line(dict(os.environ))
    case "sleep":
        print_line({"sleep_ms": 60_000, "say": "the build takes a while"})
    case "spend":
        for tokens in range(10, 10_000_000, 10):
            print_line({"tokens": tokens})
    case "fail":
        print_line("I tried")
        sys.exit("no room on the disk")
    case "confess":
        print_line({"error": "Overloaded", "tokens": 3})
    case "crash":
        os.abort()
    case "chatter":
        for number in range(100_000):
            print_line(f"line {number}")
