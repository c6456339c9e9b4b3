"""The stored rows as charges in FOCUS, the open specification of bills: see ``docs/focus-export.md``."""
