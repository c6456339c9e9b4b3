"""Sources of series: files and servers into the table ``samples`` and the inventory's series, shard by shard.

Here belong protocols, profiles of exporters and the meaning of labels. Here do not belong holding, sweeping or money.
"""
