"""Runs the whole system in one process under one seed: virtual time, disks, network, crashes and clocks. See docs/simulation.md."""
