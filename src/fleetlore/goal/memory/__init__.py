"""What is kept for later goals: notes in a folder, written after turns and put in order in dreams."""
