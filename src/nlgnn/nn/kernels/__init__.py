"""Kernels: products, sums and convolutions with hand-written gradients."""
