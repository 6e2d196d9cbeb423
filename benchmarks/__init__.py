"""Benchmarks: our models compared with plain PyTorch Geometric ones, interleaved, after a check that both are equal."""
