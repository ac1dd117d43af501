"""Secrets of a first start: made once, kept from others, never made anew over what is there."""

from pathlib import Path

import pytest

from gateway.settings.first_start import SecretsRefused, load_secrets, local_admin_token, prepare_secrets
from gateway.settings.sources import load_settings
from gateway.settings.tree import Settings


def settings_in(data: Path, **overrides: object) -> Settings:
    return load_settings(None, {"data": data, **overrides})


def new_key() -> tuple[str, str]:
    return "GENERATED", "generated-secret"


def test_absent_secrets_are_made_once_and_readable_by_the_owner_only(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    secrets, fresh = prepare_secrets(settings, new_key)
    assert (fresh.root_access_key, fresh.root_secret_key) == ("GENERATED", "generated-secret")
    assert len(fresh.admin_token) >= 32
    assert local_admin_token(tmp_path) == fresh.admin_token
    assert fresh.admin_token not in secrets.admin_token_sha256
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "secrets").iterdir()}
    assert modes == {"root": 0o600, "admin": 0o600}
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700

    again, nothing = prepare_secrets(settings, lambda: pytest.fail("made a second key"))
    assert again == secrets
    assert not (nothing.root_access_key)
    assert not (nothing.root_secret_key)
    assert not (nothing.admin_token)


def test_settings_are_stronger_and_leave_no_file(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, root_access_key="mine", root_secret_key="my-secret-key", admin_token="t" * 20)
    secrets, fresh = prepare_secrets(settings, lambda: pytest.fail("made a key that nobody needs"))
    assert (secrets.root_access_key, secrets.root_secret_key) == ("mine", "my-secret-key")
    assert not list((tmp_path / "secrets").iterdir())
    assert not fresh.admin_token


def test_secrets_do_not_appear_in_a_text(tmp_path: Path) -> None:
    secrets, fresh = prepare_secrets(settings_in(tmp_path), new_key)
    assert "generated-secret" not in f"{secrets!r}{secrets}{fresh!r}{fresh}"


@pytest.mark.parametrize("name", ["root", "admin"])
def test_a_file_that_others_may_read_is_refused(tmp_path: Path, name: str) -> None:
    settings = settings_in(tmp_path)
    prepare_secrets(settings, new_key)
    (tmp_path / "secrets" / name).chmod(0o640)
    with pytest.raises(SecretsRefused, match=f"chmod 600 .*{name}"):
        load_secrets(settings)


def test_a_damaged_root_file_is_refused_and_not_replaced(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    prepare_secrets(settings, new_key)
    (tmp_path / "secrets" / "root").write_text("{")
    with pytest.raises(SecretsRefused, match="damaged"):
        prepare_secrets(settings, lambda: pytest.fail("replaced the root key"))
