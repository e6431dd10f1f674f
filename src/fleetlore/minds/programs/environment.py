"""Import path of 0.1, kept until 0.3: use `fleetlore.process.environment`."""

from fleetlore.process.environment import scrub_environment

scrubbed = scrub_environment
