"""Where it is kept: the backends behind one contract, and the recorder that is their only door."""
