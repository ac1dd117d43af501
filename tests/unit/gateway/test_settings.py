"""Settings: sources in their order, everything wrong refused with a line that says what, secrets never shown."""

import os
import re
from pathlib import Path

import pytest

from gateway.settings.reference import render
from gateway.settings.sources import SettingsRefused, dump_settings, load_settings, parse_settings
from gateway.settings.tree import Settings


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith(("ISOTHERM_", "MINIO_"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def refusal(file: Path | None = None, **overrides: object) -> str:
    with pytest.raises(SettingsRefused) as caught:
        load_settings(file, overrides)
    return "\n".join(caught.value.lines)


def test_defaults_need_nothing(tmp_path: Path) -> None:
    settings = load_settings()
    assert settings.server.host == "127.0.0.1"
    assert (settings.server.port, settings.server.admin_port) == (9000, 9001)
    assert settings.metadata_url == f"sqlite:///{tmp_path}/isotherm-data/metadata.db"
    assert settings.server.worker_count >= 1


def test_environment_is_stronger_than_the_file_and_options_than_both(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "isotherm.toml").write_text(
        'seconds_per_day = 1.0\n[server]\nport = 1001\nregion = "eu-1"\nbacklog = 99\n'
    )
    monkeypatch.setenv("ISOTHERM_SERVER__PORT", "1002")
    monkeypatch.setenv("ISOTHERM_SERVER__REGION", "eu-2")
    settings = load_settings(None, {"server": {"port": 1003}})
    assert (settings.server.port, settings.server.region, settings.server.backlog) == (1003, "eu-2", 99)
    assert settings.seconds_per_day == 1.0


def test_minio_names_are_aliases_and_weaker_than_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINIO_ROOT_USER", "from-minio")
    monkeypatch.setenv("MINIO_ROOT_PASSWORD", "secret-of-minio")
    assert load_settings().root_access_key == "from-minio"
    monkeypatch.setenv("ISOTHERM_ROOT_ACCESS_KEY", "ours")
    monkeypatch.setenv("ISOTHERM_ROOT_SECRET_KEY", "secret-of-ours")
    settings = load_settings()
    assert settings.root_access_key == "ours"
    assert settings.root_secret_key.get_secret_value() == "secret-of-ours"


def test_buckets_and_lists_are_words_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISOTHERM_BUCKETS", "plain, kept:versioned")
    monkeypatch.setenv("ISOTHERM_SERVER__DOMAINS", "s3.example.com,s3.internal")
    settings = load_settings()
    assert [(bucket.name, bucket.is_versioned) for bucket in settings.buckets] == [("plain", False), ("kept", True)]
    assert settings.server.domains == ("s3.example.com", "s3.internal")


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"server": {"port": "many"}}, r"server\.port: .*integer"),
        ({"server": {"port": 70000}}, r"server\.port: .*65535"),
        ({"server": {"port": 9001}}, r"server: port and admin_port must differ"),
        ({"server": {"host": "gateway.example.com"}}, r"server\.host: .*does not appear to be an IPv4 or IPv6 address"),
        ({"server": {"certificate": "c.pem"}}, r"server: certificate and private_key go together"),
        ({"server": {"domains": "UPPER.example"}}, r"server\.domains: .*lower-case"),
        ({"server": {"region": "no region"}}, r"server\.region: "),
        (
            {"limits": {"header_seconds": 20, "idle_seconds": 10}},
            r"limits: header_seconds must not exceed idle_seconds",
        ),
        ({"limits": {"drain_seconds": 5}}, r"limits: body_silence_seconds must not exceed drain_seconds"),
        ({"buckets": "Wrong_Name"}, r"buckets\.0\.name: .*not a bucket name"),
        ({"buckets": "fine:locked"}, r"buckets: .*only `versioned`"),
        ({"root_access_key": "only-one"}, r"root_access_key and root_secret_key go together"),
        ({"root_access_key": "k" * 20, "root_secret_key": "short"}, r"root_secret_key: is shorter than 8"),
        ({"admin_token": "short"}, r"admin_token: .*16 to 512"),
        ({"admin": {"tokens": [{"name": "a", "sha256": "xyz", "scopes": ["read"]}]}}, r"admin\.tokens\.0\.sha256: "),
        ({"admin": {"tokens": [{"name": "a", "sha256": "0" * 64, "scopes": ["root"]}]}}, r"admin\.tokens\.0\.scopes"),
        ({"serverr": {"port": 1}}, r"serverr: is not a setting"),
        ({"server": {"prot": 1}}, r"server\.prot: is not a setting"),
        ({"seconds_per_day": 0}, r"seconds_per_day: "),
    ],
)
def test_wrong_values_are_refused_by_name(overrides: dict[str, object], said: str) -> None:
    assert re.search(said, refusal(**overrides)), refusal(**overrides)


def test_unknown_names_are_refused_in_file_and_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ISOTHERM_SERVER_PORT", "9")
    assert refusal() == "ISOTHERM_SERVER_PORT: is not a setting"
    monkeypatch.delenv("ISOTHERM_SERVER_PORT")
    (tmp_path / "other.toml").write_text("[limits]\nlimit = 1\n")
    assert refusal(tmp_path / "other.toml") == "limits.limit: is not a setting"
    assert "no such file" in refusal(tmp_path / "absent.toml")
    (tmp_path / "broken.toml").write_text("[server\n")
    assert "broken.toml" in refusal(tmp_path / "broken.toml")


def test_what_kubernetes_sets_for_a_service_of_our_name_is_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (
        ("ISOTHERM_SERVICE_HOST", "10.0.0.1"),
        ("ISOTHERM_SERVICE_PORT_S3", "9000"),
        ("ISOTHERM_PORT", "tcp://10.0.0.1:9000"),
        ("ISOTHERM_PORT_9000_TCP_ADDR", "10.0.0.1"),
        ("ISOTHERM_ADMIN_SERVICE_PORT", "9001"),
    ):
        monkeypatch.setenv(name, value)
    assert load_settings().server.port == 9000


def test_no_refusal_and_no_text_shows_a_secret() -> None:
    canaries = {"root_access_key": "key", "root_secret_key": "CANARY1", "admin_token": "CANARY2 with spaces in it"}
    assert "CANARY" not in refusal(**canaries)
    settings = load_settings(None, {**canaries, "root_secret_key": "CANARY-1", "admin_token": "CANARY-2-long-enough"})
    assert "CANARY" not in repr(settings)
    assert "CANARY" not in str(settings)


def test_settings_cannot_be_changed() -> None:
    settings = load_settings()
    with pytest.raises(ValueError, match="frozen"):
        settings.server.port = 1  # type: ignore[misc]  # the point of the test


def test_a_child_gets_the_same_settings_whatever_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load_settings(
        None,
        {"root_access_key": "key", "root_secret_key": "CANARY-1", "buckets": "one:versioned", "server": {"port": 0}},
    )
    text = dump_settings(settings)
    monkeypatch.setenv("ISOTHERM_SERVER__PORT", "1234")
    again = parse_settings(text)
    assert again == settings
    assert again.root_secret_key.get_secret_value() == "CANARY-1"


def test_the_reference_is_generated_from_the_tree() -> None:
    """Run `python -m gateway.settings.reference > deploy/settings.md` when this fails."""
    path = Path(__file__).parents[3] / "deploy" / "settings.md"
    assert path.read_text() == render()


def test_every_setting_is_described_and_used() -> None:
    """A setting that nothing reads would be a lie to the operator."""
    root = Path(__file__).parents[3] / "gateway"
    code = "\n".join(file.read_text() for file in root.rglob("*.py") if file.parent.name != "settings")
    tree = (root / "settings" / "tree.py").read_text()
    for name, section in Settings.model_fields.items():
        inner = getattr(section.annotation, "model_fields", None)
        for leaf, field in (inner or {name: section}).items():
            assert field.description, leaf
            assert re.search(rf"\.{leaf}\b", code) or re.search(rf"self\.{leaf}\b", tree), f"{name}.{leaf} is not used"
