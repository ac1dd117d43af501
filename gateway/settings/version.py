"""The version of this program, as it is installed."""

from importlib.metadata import PackageNotFoundError, version


def package_version() -> str:
    """Version of the installed package; `0.0.0+source` when it runs from a checkout."""
    try:
        return version("isotherm")
    except PackageNotFoundError:
        return "0.0.0+source"
