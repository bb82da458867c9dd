"""Configurations of products, by the maker of the device."""
