"""mbarriers and the bulk copy engine (TMA)."""
