"""Commands of their own size, a file each; the small ones stand in cli.py."""
