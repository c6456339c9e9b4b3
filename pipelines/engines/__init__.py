"""How shards are run: one after the other, in a pool of processes, or on a cluster. An engine knows nothing of what it runs."""
