"""Import path of 0.1, kept until 0.3: use `fleetlore.goal.acceptance.verifiers`."""

from fleetlore.goal.acceptance.verifiers import VERIFIERS as VERIFIERS
from fleetlore.goal.acceptance.verifiers import Site as Site
from fleetlore.goal.acceptance.verifiers import Verifier as Verifier
from fleetlore.goal.acceptance.verifiers import git_clean as git_clean
from fleetlore.goal.acceptance.verifiers import no_paths_touched as no_paths_touched
