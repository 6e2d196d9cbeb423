"""Searches over the options of a model by validation."""
