"""Reproduction of the experiments of Liu, Wang and Ji (2021): cells are measured once, tables and pages show them."""
