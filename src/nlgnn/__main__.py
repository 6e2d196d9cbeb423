"""The entry point of `python -m nlgnn`, which is the command `nlgnn`."""

from nlgnn.cli.main import main

if __name__ == "__main__":
    main()
