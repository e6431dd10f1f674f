"""What acts: a cast on its stage, and more to come."""
