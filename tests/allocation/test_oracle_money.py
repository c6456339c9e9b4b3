"""The compiled method's nanos against the brute-force one's, on random clusters; ``tests.oracle_many`` draws more."""

from tests.oracle_many import many

test_nanos_of_random_clusters = many(150)
