"""The command line, with one file per command; listings of graphs and models are in `main`."""
