"""Old import path from version 0.1, kept until 0.3. Use `fleetlore.story.vocabulary` instead."""

from fleetlore.story.vocabulary import Vocabulary as Vocabulary
