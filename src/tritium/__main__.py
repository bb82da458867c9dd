"""`python -m tritium` is the command `tritium`."""

from tritium.cli import main

if __name__ == "__main__":
    main()
