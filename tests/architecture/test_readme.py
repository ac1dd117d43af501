"""The README names nothing that does not exist: commands, targets, settings, routes, metrics, files."""

import re
from collections.abc import Callable, Collection

import pytest
import typer
from typer.core import TyperGroup

from gateway.admin.health import PREFIXES
from gateway.admin.routes import ROUTES
from gateway.cli.commands import app
from gateway.settings.sources import ALIASES, CLIENT_NAMES, PREFIX, setting_names
from gateway.telemetry.families import Families
from tests.architecture.tree import ROOT
from tests.readme import TEXT, blocks
from tiers.catalogue import Catalogue


def unknown_settings(text: str) -> set[str]:
    """Environment names with our prefix that nothing reads."""
    known = {f"{PREFIX}{name}".upper() for name, _ in setting_names()} | CLIENT_NAMES | set(ALIASES)
    return set(re.findall(rf"{PREFIX}\w+", text)) - known


def unknown_commands(text: str) -> list[str]:
    """Invocations of `isotherm` that the command line does not have, with their options."""
    found = []
    for line in re.findall(r"(?:^|`)isotherm ((?:[a-z-]+ ?)+)", text, re.MULTILINE):
        command, words = typer.main.get_command(app), line.split()
        while isinstance(command, TyperGroup) and words and words[0] in command.commands:
            command = command.commands[words.pop(0)]
        options = {option for parameter in command.params for option in parameter.opts}
        stray = [word for word in words if word.startswith("-") and word not in options]
        if isinstance(command, TyperGroup) or stray:
            found.append(line)
    return found


def unknown_targets(text: str) -> set[str]:
    """Words after `make` that the Makefile does not have."""
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    return set(re.findall(r"(?:^|`)make ([a-z]+)", text, re.MULTILINE)) - targets


def unknown_metrics(text: str) -> set[str]:
    """Metric names that no family has."""
    known = {sample for family in Families().registry.collect() for sample in (family.name, f"{family.name}_total")}
    return set(re.findall(r"`(isotherm_\w+)`", text)) - known


def unknown_paths(text: str) -> set[str]:
    """Paths on the admin port that no route serves."""
    served = [re.sub(r"\{\w+\}", "[^/]+", route.path) for route in ROUTES]
    served += [f"{prefix}/{name}" for prefix in PREFIXES for name in ("live", "ready", "cluster")]
    paths = set(re.findall(r"(?:`|:900[01])(/(?:admin|health|metrics)[\w/.-]*)", text))
    return {path for path in paths if not any(re.fullmatch(pattern, path) for pattern in served)}


def unknown_files(text: str) -> set[str]:
    """Link targets within the repository that are not there."""
    return {target for target in re.findall(r"\]\(([\w./-]+)\)", text) if not (ROOT / target).exists()}


CHECKS = [unknown_settings, unknown_commands, unknown_targets, unknown_metrics, unknown_paths, unknown_files]


@pytest.mark.parametrize("check", CHECKS)
def test_readme_names_only_what_exists(check: Callable[[str], Collection[str]]) -> None:
    assert not check(TEXT)


@pytest.mark.parametrize("check", CHECKS)
def test_check_convicts(check: Callable[[str], Collection[str]]) -> None:
    """Each check finds its own planted falsehood."""
    lies = (
        "`ISOTHERM_SHINY`, `make money`, `isotherm tier invent`, `isotherm_luck_total`, `/admin/v1/wishes`, [x](NO.md)"
    )
    assert len(check(lies)) == 1


def test_every_tier_is_described_as_it_is() -> None:
    """The table's storage classes are those of the catalogue."""
    catalogue = Catalogue(Catalogue.default_tiers(), [])
    for tier in catalogue.tiers():
        row = next(line for line in TEXT.splitlines() if line.startswith(f"| {tier.name} |"))
        assert row.split("|")[2].strip() == ", ".join(tier.storage_classes)


def test_python_in_the_readme_compiles() -> None:
    sources = [text for heading in blocks() for language, text in blocks()[heading] if language == "python"]
    assert sources
    for source in sources:
        compile(source, "README.md", "exec")


def test_the_place_of_the_measurements_is_kept() -> None:
    assert TEXT.count("<!-- measured -->") == 1
