"""The root account and the admin token of a first start: made when absent, kept in files that only the owner may read.

<data>/secrets/ (0700) holds `root` (access key and secret key, JSON) and `admin` (admin token), and beside them the
master key of `gateway.auth.secrets` and the keys of `gateway.auth.key_file`. What was generated is printed once, by
`isotherm serve`, and never logged.
"""

import json
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from gateway.settings.tree import Settings

FOLDER: Final = "secrets"
MASTER_KEY_FILE: Final = "master"
KEY_FILE: Final = "encryption-keys"


@dataclass(frozen=True, slots=True, repr=False)
class Secrets:
    """What a process needs to know who may do what; the admin token only as its digest."""

    root_access_key: str
    root_secret_key: str
    admin_token_sha256: str


@dataclass(frozen=True, slots=True, repr=False)
class Fresh:
    """What this start generated, for the one print; empty fields were there before."""

    root_access_key: str = ""
    root_secret_key: str = ""
    admin_token: str = ""


class SecretsRefused(Exception):
    """A secret is missing, damaged or readable by others; the text says which and what to do."""


def folder_of(settings: Settings) -> Path:
    """Directory of the secret files."""
    return settings.data / FOLDER


def prepare_secrets(settings: Settings, new_key: Callable[[], tuple[str, str]]) -> tuple[Secrets, Fresh]:
    """Read the secrets, making those that neither settings nor files have.

    `new_key` makes an access key id and its secret. Files are flushed before this returns. Errors: SecretsRefused.
    """
    folder = folder_of(settings)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh_root, fresh_token = ("", ""), ""
    if not settings.root_access_key and not (folder / "root").exists():
        fresh_root = new_key()
        _write(folder / "root", json.dumps({"access_key": fresh_root[0], "secret_key": fresh_root[1]}))
    if not settings.admin_token.get_secret_value() and not (folder / "admin").exists():
        fresh_token = secrets.token_urlsafe(32)
        _write(folder / "admin", fresh_token)
    return load_secrets(settings), Fresh(*fresh_root, fresh_token)


def load_secrets(settings: Settings) -> Secrets:
    """Read the secrets; settings are stronger than files. Errors: SecretsRefused."""
    folder = folder_of(settings)
    access_key, secret_key = settings.root_access_key, settings.root_secret_key.get_secret_value()
    if not access_key:
        access_key, secret_key = _root_of(folder / "root")
    token = settings.admin_token.get_secret_value() or _read(folder / "admin")
    return Secrets(access_key, secret_key, sha256(token.encode()).hexdigest())


def local_admin_token(data: Path) -> str:
    """The generated admin token of a store on this machine, empty when there is none or it is not ours to read."""
    try:
        return _read(data / FOLDER / "admin")
    except (SecretsRefused, OSError):
        return ""


def _root_of(path: Path) -> tuple[str, str]:
    try:
        document = json.loads(_read(path))
        return str(document["access_key"]), str(document["secret_key"])
    except (ValueError, KeyError, TypeError):
        raise SecretsRefused(f"{path} is damaged: restore it, or set ISOTHERM_ROOT_ACCESS_KEY and its secret") from None


def _read(path: Path) -> str:
    try:
        mode = path.stat().st_mode
        text = path.read_text().strip()
    except FileNotFoundError:
        raise SecretsRefused(f"{path} is missing: start once with `isotherm serve`, or restore it") from None
    if mode & 0o077:
        raise SecretsRefused(f"{path} may be read by others: chmod 600 {path}")
    return text


def _write(path: Path, text: str) -> None:
    """Whole or not at all, and durable: a lost master key loses the accounts."""
    staged = path.with_suffix(".new")
    staged.unlink(missing_ok=True)
    descriptor = os.open(staged, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        os.write(descriptor, f"{text}\n".encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    staged.rename(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
