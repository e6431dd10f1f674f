"""The brief of the last seven days, as Markdown and as a page, for a wiki or a mail on Monday morning.

python monday_brief.py sqlite:team.db OUTPUT_FOLDER
"""

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fleetlore import connect, read_brief, read_story, render_brief, render_story


def write_brief(url: str, folder: Path, now: datetime) -> list[Path]:
    """Write brief.md, brief.html and story.md; returns the files."""
    since = now - timedelta(days=7)
    with connect(url).blocking() as log:
        brief = read_brief(log, since=since, now=now)
        story = read_story(log, since=since, now=now, detail="headline")
    texts = {
        "brief.md": render_brief(brief, "markdown"),
        "brief.html": f"<!doctype html><meta charset=utf-8>{render_brief(brief, 'html')}",
        "story.md": render_story(story, "markdown"),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in texts]


if __name__ == "__main__":
    for path in write_brief(sys.argv[1], Path(sys.argv[2]), datetime.now(UTC)):
        print(path)
