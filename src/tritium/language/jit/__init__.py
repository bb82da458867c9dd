"""Functions written in the language: source, parameters, captured globals, dependencies, hash."""
