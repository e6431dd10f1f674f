"""One goal, pursued turn after turn to an honest end."""
