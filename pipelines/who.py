"""Who runs the program."""

import getpass


def user() -> str:
    """The name of the system's user."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
