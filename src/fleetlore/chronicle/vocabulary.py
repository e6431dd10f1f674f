"""Import path of 0.1, until 0.3."""

from fleetlore.story.vocabulary import Vocabulary as Vocabulary
