"""What happened in a session or task: outcome records with evidence, folded from events.

`facts` has the small records that a session consists of; `checks`, `flags`, `troubles`, `corrections` and `claims` decide
about them; `session` folds events into facts and makes the outcome record.
"""
