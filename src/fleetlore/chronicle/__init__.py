"""Told as prose: arcs sifted from beats, phrases for every kind, and the telling of it all. Pure: no I/O, clock or chance."""
