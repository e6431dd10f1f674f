"""What a thinker may use: a database that is read, a piece of Python that is run. Each with its limits, none knows the engine."""
