"""The values of the language and their types: tensors, tuples, aggregates, constants."""
