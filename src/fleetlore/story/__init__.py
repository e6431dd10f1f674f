"""Texts for people, rendered from outcome records: the brief. Pure; the words are data in `words/*.toml`."""
