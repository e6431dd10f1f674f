"""What goes wrong with agents and endpoints, told apart by their words."""
