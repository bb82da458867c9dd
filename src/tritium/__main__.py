"""`python -m tritium` is the command `tritium`."""

from .cli import main

if __name__ == "__main__":
    main()
