"""Times of high water."""

MINUTES_LATER = 0


def high_water(day: int) -> str:
    """The time of the morning's high water; 06:00 on the first day."""
    hours, minutes = divmod(6 * 60 + MINUTES_LATER * (day - 1), 60)
    return f"{hours:02}:{minutes:02}"
