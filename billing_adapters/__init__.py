"""Bills into line items: one file per format, one registry.

Here belong the columns, traps and delivery layouts of billing exports. Here do not belong GPUs, teams, the policy of
the split, or Dagster. ``import billing_adapters`` loads no cloud SDK.
"""
