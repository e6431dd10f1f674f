"""How it is told: tasks and who holds them. Data only; `phrases/__init__.py` tells the rules."""

from __future__ import annotations

from collections.abc import Mapping

PHRASES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "work.task_created": (
        (
            "{agent} wrote down task {task}: {text}",
            "{agent} put task {task} on the board: {text}",
            "A new task, {task}, came from {agent}: {text}",
            "Task {task} began as a line by {agent}: {text}",
            "{agent} opened task {task} under the title “{text}”",
            "The board gained task {task} from {agent}: {text}",
        ),
        (
            "{agent} wrote down a task: {text}",
            "{agent} put a new task on the board: {text}",
            "A new task came from {agent}: {text}",
            "The task that {agent} noted read “{text}”",
            "The board gained a task from {agent}: {text}",
        ),
        (
            "{agent} wrote down a task with the title “{title}”",
            "{agent} put “{title}” on the board as a new task",
            "A new task by {agent} had the title “{title}”",
            "The board gained a task from {agent}, titled “{title}”",
            "{agent} opened a task under the title “{title}”",
        ),
        (
            "{agent} wrote down task {task}",
            "{agent} put task {task} on the board",
            "A new task, {task}, came from {agent}",
            "The board gained task {task} from {agent}",
            "{agent} opened task {task}, new on the board",
        ),
        (
            "{agent} wrote down a new task",
            "{agent} put one more task on the board",
            "A new task came from {agent}",
            "The board gained a task from {agent}",
            "{agent} opened a task, new on the board",
        ),
    ),
    "work.updated": (
        (
            "{agent} changed the entry for “{field}”: {text}",
            "{agent} updated “{field}” in the task: {text}",
            "A change by {agent} to “{field}” went on the board: {text}",
            "On the board {agent} gave “{field}” a new entry: {text}",
            "{agent} revised what the board said under “{field}”: {text}",
        ),
        (
            "{agent} changed something about the task: {text}",
            "{agent} brought the board up to date: {text}",
            "A change by {agent} went on the board: {text}",
            "{agent} revised the entry with the words “{text}”",
            "The board had a new entry from {agent}: {text}",
        ),
        (
            "{agent} changed “{field}” from “{old}” to “{new}”",
            "Under “{field}”, {agent} replaced “{old}” with “{new}”",
            "The entry “{field}” went from “{old}” to “{new}” with {agent}",
            "{agent} set “{field}”, which had been “{old}”, to “{new}”",
            "Where “{field}” had said “{old}”, {agent} wrote “{new}”",
        ),
        (
            "{agent} set “{field}” to “{new}”",
            "Under “{field}”, {agent} wrote “{new}”",
            "The entry “{field}” became “{new}” with {agent}",
            "{agent} gave “{field}” the value “{new}”",
            "A change by {agent} made “{field}” read “{new}”",
        ),
        (
            "{agent} changed what task {task} said",
            "{agent} brought the entry for task {task} up to date",
            "A change by {agent} to task {task} went on the board",
            "{agent} revised task {task} on the board",
            "{agent} gave task {task} new details",
        ),
        (
            "{agent} changed something about the task",
            "{agent} brought the board up to date",
            "A change by {agent} went on the board",
            "{agent} revised an entry on the board",
            "{agent} gave the task new details",
        ),
    ),
    "work.started": (
        (
            "{agent} began: {text}",
            "{agent} started on the task: {text}",
            "The work began with {agent}: {text}",
            "{agent} got started: {text}",
            "{agent} was at work on the task: {text}",
        ),
        (
            "{agent} began on task {task}",
            "{agent} started to work on task {task}",
            "The work on task {task} began with {agent}",
            "{agent} was at work on task {task}",
            "{agent} got started on task {task}",
        ),
        (
            "{agent} began on the task",
            "{agent} started to work",
            "The work began in the hands of {agent}",
            "The task was under way with {agent}",
            "{agent} made a beginning on the task",
        ),
    ),
    "work.reopened": (
        (
            "For {agent}, finished work was open again: {text}",
            "The finished work of {agent} came back to the board: {text}",
            "What had counted as done was open again for {agent}: {text}",
            "{agent} had finished work back on the table: {text}",
            "Back to {agent} came a task once closed: {text}",
        ),
        (
            "For {agent}, finished work was open again with the reason “{reason}”",
            "The finished work of {agent} came back to the board: {reason}",
            "What had counted as done was open again for {agent}: {reason}",
            "{agent} had finished work back on the table, with the reason “{reason}”",
            "The reason why work of {agent} was open again read “{reason}”",
        ),
        (
            "For {agent}, the finished task {task} was open again",
            "Task {task}, once closed, came back to {agent}",
            "{agent} had task {task} back on the table",
            "Task {task} had been closed, and was open again with {agent}",
            "The board showed task {task} as open again, with {agent}",
        ),
        (
            "For {agent}, finished work was open again",
            "The finished work of {agent} came back to the board",
            "What had counted as done was open again for {agent}",
            "{agent} had finished work back on the table",
            "A task that had been closed came back to {agent}",
        ),
    ),
    "work.cancelled": (
        (
            "{agent} called the work off: {text}",
            "The task was off, {agent} noted: {text}",
            "{agent} took the task off the board: {text}",
            "{agent} cancelled the task with the words “{text}”",
            "No more was to be done here, said {agent}: {text}",
        ),
        (
            "{agent} called the work off for this reason: {reason}",
            "{agent} cancelled the task with the reason “{reason}”",
            "The task was called off, and {agent} gave as reason “{reason}”",
            "{agent} took the task off the board: {reason}",
            "The reason that {agent} gave for calling the task off was “{reason}”",
        ),
        (
            "{agent} called task {task} off",
            "{agent} cancelled task {task}",
            "{agent} took task {task} off the board",
            "No more was to be done on task {task}, said {agent}",
            "Task {task} was off, {agent} noted",
        ),
        (
            "{agent} called a task off",
            "{agent} cancelled the task",
            "{agent} took a task off the board",
            "No more was to be done on the task, said {agent}",
            "The task was off the board, {agent} noted",
        ),
    ),
    "work.lease_taken": (
        (
            "{agent} took the lease on the task: {text}",
            "The lease was with {agent}: {text}",
            "{agent} reserved the task with the note “{text}”",
            "For a time the task belonged to {agent}: {text}",
            "{agent} held the task from here on: {text}",
        ),
        (
            "{agent} took the lease on task {task}",
            "The lease on task {task} was with {agent}",
            "{agent} reserved task {task}",
            "For a time task {task} belonged to {agent}",
            "{agent} held task {task} from here on",
        ),
        (
            "{agent} took the lease on a task",
            "The lease on the task was with {agent}",
            "{agent} reserved the task",
            "For a time the task belonged to {agent}",
            "{agent} held the task from here on",
        ),
    ),
    "work.lease_lost": (
        (
            "{agent} lost the lease on the task: {text}",
            "The lease slipped from {agent}: {text}",
            "{agent} held the task no longer: {text}",
            "The task slipped from {agent}, with the note “{text}”",
            "The hold of {agent} on the task came to an end: {text}",
        ),
        (
            "{agent} lost the lease, and the reason read “{reason}”",
            "The lease slipped from {agent} with the reason “{reason}”",
            "{agent} held the task no longer, for this reason: {reason}",
            "The hold of {agent} on the task ended with the reason “{reason}”",
            "The reason noted when {agent} lost the lease was “{reason}”",
        ),
        (
            "{agent} lost the lease on task {task}",
            "The lease on task {task} slipped from {agent}",
            "{agent} held task {task} no longer",
            "The hold of {agent} on task {task} came to an end",
            "Task {task} no longer belonged to {agent}",
        ),
        (
            "{agent} lost the lease on a task",
            "The lease on the task slipped from {agent}",
            "{agent} held the task no longer",
            "The hold of {agent} on the task came to an end",
            "The task no longer belonged to {agent}",
        ),
    ),
    "work.archived": (
        (
            "{agent} put finished work away: {text}",
            "Finished work went from {agent} into the archive: {text}",
            "{agent} cleared the table of something finished: {text}",
            "The archive grew by an entry from {agent}: {text}",
            "{agent} filed finished work with the note “{text}”",
        ),
        (
            "{agent} put finished work away with the reason “{reason}”",
            "{agent} filed something finished for this reason: {reason}",
            "The archive grew by an entry from {agent}, with the reason “{reason}”",
            "The reason that {agent} gave for filing the work was “{reason}”",
            "Into the archive went finished work from {agent}: {reason}",
        ),
        (
            "{agent} put the finished task {task} away",
            "Task {task} went from {agent} into the archive",
            "{agent} cleared the table of task {task}, which was finished",
            "The archive grew by task {task} from {agent}",
            "{agent} filed task {task} as finished",
        ),
        (
            "{agent} put something finished away",
            "Finished work went from {agent} into the archive",
            "{agent} cleared the table of something finished",
            "The archive grew by an entry from {agent}",
            "{agent} filed a piece of finished work",
        ),
    ),
}
"""Kind → groups of variants, best first."""

MANY: Mapping[str, tuple[str, ...]] = {
    "work.task_created": (
        "{agent} wrote down {count} tasks {when}",
        "The board gained {count} tasks from {agent} {when}",
        "{agent} put new work on the board {count_times} {when}",
    ),
    "work.updated": (
        "{agent} changed the entry {count_times} {when}",
        "{agent} brought the board up to date {count_times} {when}",
        "The board took {count} changes from {agent} {when}",
    ),
    "work.started": (
        "{agent} began to work {count_times} {when}",
        "{agent} made {count} beginnings {when}",
        "Work began in the hands of {agent} {count_times} {when}",
    ),
    "work.reopened": (
        "For {agent}, finished work was open again {count_times} {when}",
        "Finished work of {agent} came back to the board {count_times} {when}",
        "The board noted {count} returns of finished work for {agent} {when}",
    ),
    "work.cancelled": (
        "{agent} called work off {count_times} {when}",
        "{agent} noted {count} cancellations {when}",
        "{agent} took work off the board {count_times} {when}",
    ),
    "work.lease_taken": (
        "{agent} took a lease {count_times} {when}",
        "{agent} took {count} leases {when}",
        "{agent} reserved work {count_times} {when}",
    ),
    "work.lease_lost": (
        "{agent} lost a lease {count_times} {when}",
        "Leases slipped from {agent} {count_times} {when}",
        "The board noted {count} lost leases for {agent} {when}",
    ),
    "work.archived": (
        "{agent} put finished work away {count_times} {when}",
        "The archive grew by {count} entries from {agent} {when}",
        "{agent} cleared the table {count_times} {when}",
    ),
}
"""Kind → how a run of like events is told."""
