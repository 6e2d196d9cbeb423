"""Training: recipes, the training loop, run folders and predictions."""
