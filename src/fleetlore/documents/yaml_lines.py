"""YAML as plain values, with the line of each: safe, without aliases, and no key twice."""

from __future__ import annotations

from datetime import date
from typing import Any

import yaml

from fleetlore.documents.validation import MAX_DEPTH, KeyPath, format_path
from fleetlore.errors import InvalidScenario

MAX_YAML_BYTES = 1024 * 1024

# The one in C is ten times as fast, where it was built.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class ParsedYaml:
    """What a file says, and where it says it."""

    def __init__(self, source: str, text: str) -> None:
        self.source = source
        self.lines: dict[KeyPath, int] = {}
        self.errors: list[str] = []
        self._seen_nodes: set[int] = set()
        self.root = self._parse_text(text)

    def locate_error(self, path: KeyPath, problem: str) -> str:
        """A problem, with the file and the line of the nearest thing that has one."""
        while path and path not in self.lines:
            path = path[:-1]
        return f"{self.source}:{self.lines.get(path, 1)}: {problem}"

    def add_error(self, path: KeyPath, problem: str) -> None:
        """Keep a problem; where is said by its line, and by its path."""
        self.errors.append(self.locate_error(path, f"{format_path(path)}: {problem}" if path else problem))

    def raise_if_invalid(self) -> None:
        """`InvalidScenario` with everything that was found so far."""
        if self.errors:
            raise InvalidScenario(self.errors)

    def _parse_text(self, text: str) -> Any:
        if len(text.encode(errors="replace")) > MAX_YAML_BYTES:
            raise InvalidScenario([f"{self.source}: over 1 MiB; that is no scenario"])
        try:
            return self._construct_root(text)
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 1
            raise InvalidScenario([f"{self.source}:{line}: not YAML: {error.problem or error.context}"]) from error
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise InvalidScenario([f"{self.source}: not YAML: {error}"]) from error

    def _construct_root(self, text: str) -> Any:
        _check_depth(text)
        loader = _LOADER(text)
        try:
            node = loader.get_single_node()
            return None if node is None else self._construct_value(loader, node, ())
        finally:
            loader.dispose()

    def _construct_value(self, loader: Any, node: Any, path: KeyPath) -> Any:
        self.lines[path] = node.start_mark.line + 1
        if len(path) > MAX_DEPTH:
            raise ValueError("nested too deeply")
        if id(node) in self._seen_nodes:  # a few aliases can stand for more than any memory holds
            raise yaml.MarkedYAMLError(problem="aliases (*name) are not taken; write it out", problem_mark=node.start_mark)
        self._seen_nodes.add(id(node))
        if isinstance(node, yaml.MappingNode):
            return self._construct_mapping(loader, node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self._construct_value(loader, item, (*path, index)) for index, item in enumerate(node.value)]
        value = loader.construct_object(node)
        return node.value if isinstance(value, date | bytes) else value

    def _construct_mapping(self, loader: Any, node: Any, path: KeyPath) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.MarkedYAMLError(problem="a key must be a word", problem_mark=key_node.start_mark)
            key = str(key_node.value)
            here = (*path, key)
            if key in found:
                self.lines[here] = key_node.start_mark.line + 1
                self.add_error(here, "is there twice")
            found[key] = self._construct_value(loader, value_node, here)
            self.lines[here] = key_node.start_mark.line + 1
        return found


def _check_depth(text: str) -> None:
    """Told by events, one after the other: the loader in C goes down by itself, and ends the process where that is too deep."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH + 1:
            raise yaml.MarkedYAMLError(problem="nested too deeply", problem_mark=event.start_mark)
