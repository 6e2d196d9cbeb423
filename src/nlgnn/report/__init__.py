"""Rows into figures."""
