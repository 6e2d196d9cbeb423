"""Recipes, the registry of systems, the training loop, and the folders that keep its runs."""
