"""The functions and operators of the language that build ops; `core` gathers the public ones."""
