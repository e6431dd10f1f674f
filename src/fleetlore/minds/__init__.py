"""Anything that answers a prompt, behind one seam."""
