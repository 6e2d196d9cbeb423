"""The benchmark: our models beside plain PyTorch Geometric ones, interleaved, after both were found equal."""
