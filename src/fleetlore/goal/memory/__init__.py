"""Memory across goals: notes in a folder, extracted after turns and consolidated ("dreams") between goals."""
