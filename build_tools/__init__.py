"""What is done while the package is built."""
