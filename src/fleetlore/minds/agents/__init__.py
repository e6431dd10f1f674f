"""Agents that take turns: coding programs, any command, a mind with tools."""
