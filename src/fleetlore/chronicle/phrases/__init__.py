"""The words of the chronicle, one module a family of kinds.

Each kind has groups of variants, best first. All variants of a group need the same fields, and the group is used when the
event has them all; the last group needs only what every event has. No full stop at the end and no time: the renderer adds
both. Words of others (`text`, `reason`, `title` …) stand after a colon or inside “…”, where any phrase fits. What an agent
thought, felt or kept secret is never told.
"""
