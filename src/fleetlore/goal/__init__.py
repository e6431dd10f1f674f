"""The goal driver: runs an agent turn by turn until a goal's criteria pass, its budget is spent, or a person is needed."""
