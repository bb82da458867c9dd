"""The test suite; one folder a part of the package."""
