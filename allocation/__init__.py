"""The method: tables and arrays in, tables and arrays out.

Here belong the rules that turn samples and bill lines into exact shares: what a sample is, how long it holds, what a device
holds at an instant, how one line is divided. Here do not belong files, networks, clocks, the environment or Dagster.

Flow: ``series`` -> ``intervals`` -> ``sweep`` -> ``apportion`` -> ``owners``, with ``findings`` out of every arrow.
"""
