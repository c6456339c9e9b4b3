"""The version of the code, which is part of every run's id."""

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("gpu-chargeback")
except PackageNotFoundError:
    VERSION = "0+unknown"
