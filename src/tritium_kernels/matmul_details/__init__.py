"""How products are cut into tiles and launched."""
