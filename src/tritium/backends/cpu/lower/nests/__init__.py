"""Loop nests: schedule, versions, reductions, scans, stores past the caches."""
