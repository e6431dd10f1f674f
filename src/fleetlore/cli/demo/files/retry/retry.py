"""When a failed delivery is tried again."""

FACTOR = 1


def delay(attempt: int) -> int:
    """Seconds to wait after a failed attempt; 30 after the first one."""
    return int(30 * FACTOR ** (attempt - 1))
