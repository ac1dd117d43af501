"""The README as the tests read it: its text, and its code blocks by heading."""

import re
from pathlib import Path

TEXT = (Path(__file__).resolve().parents[1] / "README.md").read_text()


def blocks() -> dict[str, list[tuple[str, str]]]:
    """Language and text of every fenced block, by the heading it stands under."""
    found: dict[str, list[tuple[str, str]]] = {}
    for section in re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]:
        heading, _, body = section.partition("\n")
        found[heading] = re.findall(r"^```(\w+)\n(.*?)^```$", body, re.MULTILINE | re.DOTALL)
    return found
