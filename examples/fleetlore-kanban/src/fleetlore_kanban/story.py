"""What a card's actions mean in a story, their phrases, and the pattern of a card that is stopped again and again."""

from collections.abc import Mapping

from fleetlore.events.payload import Beat
from fleetlore.story.vocabulary import Vocabulary
from fleetlore.views.patterns.model import Part, Pattern

BEATS: Mapping[str, Beat] = {
    "kanban.card_taken": "claim",
    "kanban.card_moved": "progress",
    "kanban.card_blocked": "setback",
    "kanban.card_unblocked": "recovery",
    "kanban.card_finished": "deliver",
}

STOPPED, GOING = Part(frozenset({"setback"})), Part(frozenset({"recovery"}))

VOCABULARY = Vocabulary(
    phrases={
        "kanban.card_taken": (("{agent} took the card {task}", "The card {task} went to {agent}"),),
        "kanban.card_moved": (
            ("{agent} moved the card {task} to “{column}”", "The card {task} went to “{column}”, by the hand of {agent}"),
            ("{agent} moved the card {task} on",),
        ),
        "kanban.card_blocked": (
            ("The card {task} of {agent} was stopped: {text}", "{agent} could not go on with the card {task}: {text}"),
            ("The card {task} of {agent} was stopped",),
        ),
        "kanban.card_unblocked": (("The card {task} of {agent} could go on", "Nothing stood in the way of {agent} and {task} any more"),),
        "kanban.card_finished": (("{agent} finished the card {task}", "The card {task} was done, by {agent}"),),
    },
    many={"kanban.card_moved": ("{agent} moved cards {count_times} {when}",)},
    arcs=(Pattern(kind="stop_and_go", parts=(STOPPED, GOING, STOPPED, GOING), until=frozenset({"deliver"}), open_after=3),),
    arcs_told={"stop_and_go": ("{agent} was stopped on {thread} more than once, and got through",)},
    open_arcs_told={"stop_and_go": ("{agent} had been stopped on {thread} more than once, and was not through",)},
)
