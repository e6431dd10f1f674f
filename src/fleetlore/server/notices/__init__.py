"""Notices: who is told, when something calls for a person."""
