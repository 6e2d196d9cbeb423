"""Models without gradient training: they read tables of neighbour features, or compare nodes by kernels."""
