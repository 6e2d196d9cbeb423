"""Baseline models and stronger local embeddings, one file each."""
