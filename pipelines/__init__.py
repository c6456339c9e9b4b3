"""One window from end to end, without Dagster: settings, sources of series, the store, the stages and the command line."""
