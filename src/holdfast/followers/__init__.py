"""Readers of the log, each from its own cursor."""
