"""YAML as plain values, with the line of each: safe, without aliases, and no key twice."""

from __future__ import annotations

from datetime import date
from typing import Any

import yaml

from fleetlore.documents.validation import MAX_DEPTH, KeyPath

# The one in C is ten times as fast, where it was built.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class InvalidYaml(ValueError):
    """A text that is no YAML, or that uses what is refused; `line` is `None` where it is not known."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.line = line


class ParsedYaml:
    """The values of a text, their lines, and the keys that are there twice. `InvalidYaml` if it cannot be parsed."""

    def __init__(self, text: str) -> None:
        self.lines: dict[KeyPath, int] = {}
        self.duplicates: list[tuple[KeyPath, int]] = []
        """Paths of keys that were there before, each with its line."""
        self._seen_nodes: set[int] = set()
        try:
            self.root = self._construct_root(text)
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 1
            raise InvalidYaml(f"{error.problem or error.context}", line) from error
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise InvalidYaml(str(error)) from error

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
            line = key_node.start_mark.line + 1
            if key in found:
                self.duplicates.append((here, line))
            found[key] = self._construct_value(loader, value_node, here)
            self.lines[here] = line
        return found


def _check_depth(text: str) -> None:
    """By events, one after the other: the loader in C recurses by itself, and a text that is nested too deeply crashes the process."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH + 1:
            raise yaml.MarkedYAMLError(problem="nested too deeply", problem_mark=event.start_mark)
