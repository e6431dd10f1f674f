"""What each view of the API shows: pure functions from folded states to the types of `shapes.py`."""
