"""A log's address for each backend."""

from __future__ import annotations

from tests.log.conftest import url

__all__ = ["url"]
