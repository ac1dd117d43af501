"""The command line without a server: help for everything, clear refusals, doctor on a fresh folder."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from gateway.cli.client import AdminClient, AdminRefused
from gateway.cli.commands import app
from gateway.cli.output import bytes_text

runner = CliRunner()


def commands(group: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command of the tree with the words that name it."""
    if hasattr(group, "commands"):
        for name, command in group.commands.items():
            yield from commands(command, (*words, name))
    else:
        yield words, group


COMMANDS = dict(commands(typer.main.get_command(app)))


def test_the_nouns_and_verbs_are_there() -> None:
    assert set(COMMANDS) == {
        ("serve",), ("doctor",), ("rebuild",), ("rotate-key",), ("version",),
        ("user", "list"), ("user", "add"), ("user", "show"), ("user", "enable"), ("user", "disable"),
        ("user", "rename"), ("user", "set-email"), ("user", "remove"), ("key", "list"), ("key", "create"), ("key",
        "revoke"),
        ("device", "list"), ("device", "show"), ("tier", "list"), ("tier", "show"), ("bucket", "list"),
        ("bucket", "show"), ("quota", "show"), ("quota", "set"), ("quota", "move"),
        ("move", "add"), ("move", "list"), ("move", "show"), ("move", "cancel"), ("move", "queue"), ("move", "pause"),
        ("move", "resume"), ("move", "where"),
    }  # fmt: skip


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_and_option_explains_itself(words: tuple[str, ...]) -> None:
    shown = runner.invoke(app, [*words, "--help"])
    assert shown.exit_code == 0
    command = COMMANDS[words]
    assert command.help
    for parameter in command.params:
        assert getattr(parameter, "help", ""), f"{words} {parameter.name}"
    has_answer = words[-1] not in {"serve", "remove", "revoke"}
    assert ("--json" in shown.output) == has_answer


def test_wrong_settings_are_listed_and_end_with_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ISOTHERM_SERVER__PROT", "1")
    done = runner.invoke(app, ["serve", "--port", "70000"])
    assert done.exit_code == 2
    assert "ISOTHERM_SERVER__PROT: is not a setting" in done.output
    assert "server.port:" in done.output


def test_doctor_on_a_fresh_folder_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = runner.invoke(app, ["doctor", "--data", str(tmp_path / "data"), "--json"])
    assert done.exit_code == 0, done.output
    findings = json.loads(done.stdout)
    assert {finding["verdict"] for finding in findings} <= {"ok", "warn"}
    assert all(finding["advice"] for finding in findings if finding["verdict"] == "warn")
    assert not (tmp_path / "data").exists()


def test_doctor_finds_what_would_stop_a_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = tmp_path / "data"
    (data / "secrets").mkdir(parents=True)
    (data / "secrets" / "root").write_text("{}")
    (data / "secrets" / "root").chmod(0o644)
    (data / "metadata.db").write_bytes(b"no database at all, but long enough to be looked at" * 100)
    done = runner.invoke(app, ["doctor", "--data", str(data), "--json"])
    assert done.exit_code == 1
    failed = {finding["check"]: finding for finding in json.loads(done.stdout) if finding["verdict"] == "fail"}
    assert "chmod 600" in failed["secrets"]["advice"]
    assert failed["database"]["advice"]


def test_verbs_without_a_token_say_what_to_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ISOTHERM_ADMIN_TOKEN", raising=False)
    monkeypatch.delenv("ISOTHERM_DATA", raising=False)
    done = runner.invoke(app, ["user", "list"])
    assert done.exit_code == 1
    assert "ISOTHERM_ADMIN_TOKEN" in done.output


@pytest.mark.parametrize("url", ["ftp://host", "host:9001", "http://", "file:///etc/passwd"])
def test_the_client_takes_http_urls_only(url: str) -> None:
    with pytest.raises(AdminRefused, match="not an http or https URL"):
        AdminClient(url, "token")


def test_sizes_for_people() -> None:
    assert [bytes_text(size) for size in (0, 1023, 1024, 1536, 5 << 30)] == [
        "0 B", "1023 B", "1.0 KiB", "1.5 KiB", "5.0 GiB",
    ]  # fmt: skip
