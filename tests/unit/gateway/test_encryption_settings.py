"""The encryption section: what is refused, what stays secret, and the rotation of a key from the command line."""

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gateway.auth.key_file import add_key, read_keys
from gateway.cli.commands import app
from gateway.settings.sources import SettingsRefused, dump_settings, load_settings, parse_settings

TRANSIT = {"kms": "transit", "transit_url": "https://vault.example:8200", "transit_token": "canary-token"}


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith(("ISOTHERM_", "MINIO_"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "section",
    [
        {"kms_keys": "one two"},
        {"kms_keys": "one,.."},
        {"kms_keys": "sse-s3"},
        {"kms_keys": "a/b"},
        {"kms_keys": "k" * 129},
        {"kms_keys": "one", "default_kms_key": "two"},
        {"kms": "transit"},
        {**TRANSIT, "transit_token": ""},
        {**TRANSIT, "transit_token": "a b"},
        {**TRANSIT, "transit_url": "ftp://vault.example"},
        {**TRANSIT, "transit_url": "https://user:password@vault.example"},
        {**TRANSIT, "transit_url": "https://vault.example/?a=b"},
        {**TRANSIT, "transit_mount": "a/b"},
        {**TRANSIT, "transit_seconds": 0},
        {"kms": "aws"},
    ],
)
def test_what_cannot_work_is_refused_at_start(section: dict[str, object]) -> None:
    with pytest.raises(SettingsRefused) as told:
        load_settings(None, {"encryption": section})
    assert "password" not in str(told.value)


def test_the_token_reaches_the_workers_and_nothing_else() -> None:
    settings = load_settings(None, {"encryption": {**TRANSIT, "kms_keys": "one,two", "default_kms_key": "two"}})
    assert settings.encryption.kms_keys == ("one", "two")
    assert "canary-token" not in repr(settings)
    assert parse_settings(dump_settings(settings)) == settings


def test_only_a_known_method_is_the_default() -> None:
    assert load_settings(None, {"s3": {"default_encryption": "AES256"}}).s3.default_encryption == "AES256"
    with pytest.raises(SettingsRefused):
        load_settings(None, {"s3": {"default_encryption": "aws:kms"}})


def test_a_key_is_rotated_from_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "data" / "secrets" / "encryption-keys"
    path.parent.mkdir(parents=True)
    run = CliRunner().invoke
    missing = run(app, ["rotate-key", "--data", str(tmp_path / "data")])
    assert missing.exit_code == 1
    assert "is missing" in missing.output
    assert not path.exists()
    add_key(path, "sse-s3", os.urandom)
    done = run(app, ["rotate-key", "--data", str(tmp_path / "data"), "--json"])
    assert json.loads(done.stdout) == {"name": "sse-s3", "version": 2}
    assert set(read_keys(path)["sse-s3"]) == {1, 2}
    unknown = run(app, ["rotate-key", "other", "--data", str(tmp_path / "data")])
    assert unknown.exit_code == 1
    assert "has no key 'other'" in unknown.output
