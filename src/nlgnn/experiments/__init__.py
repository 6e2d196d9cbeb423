"""Experiments: each returns plain rows; nothing prints here."""
