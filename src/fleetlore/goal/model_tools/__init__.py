"""The tools of `model_harness.py`: read, write, edit, list, search and shell, confined to a workspace."""
