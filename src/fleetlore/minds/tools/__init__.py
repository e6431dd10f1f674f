"""The tools of a mind, which reach no further than its workspace."""
