"""Stored partitions copied into a warehouse: what is asked for, what is loaded already, and each kind of warehouse in a file."""
