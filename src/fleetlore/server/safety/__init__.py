"""Who may come in, from where, and how often."""
