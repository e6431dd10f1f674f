"""Import paths of 0.1, kept until 0.3."""
