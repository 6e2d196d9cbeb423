"""The catalogue's entries, one module for each project that publishes graphs."""
