"""A thin skin of Dagster over ``pipelines.stages``: assets, partitions, checks, schedules. No figure is computed here."""
