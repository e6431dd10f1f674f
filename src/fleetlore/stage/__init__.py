"""A cast that plays a scene, recorded turn by turn."""
