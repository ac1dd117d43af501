"""Where settings come from, and what is said when they are wrong."""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)
from pydantic_settings.exceptions import SettingsError

from gateway.settings.tree import Settings

FILE_NAME: Final = "isotherm.toml"
PREFIX: Final = "ISOTHERM_"
ALIASES: Final[Mapping[str, str]] = {"MINIO_ROOT_USER": "root_access_key", "MINIO_ROOT_PASSWORD": "root_secret_key"}
"""Names that people who come from MinIO have in their environment already; weaker than our own."""

CLIENT_NAMES: Final = frozenset({"ISOTHERM_CONFIG", "ISOTHERM_ADMIN_URL"})
"""Read by the command line, no settings."""


_KUBERNETES: Final = re.compile(
    r"\w+_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP)(_\w+)?)=.*|\w+_PORT=\w+://.*"
)
"""What Kubernetes puts into every pod for a service named isotherm; not meant for us."""


class SettingsRefused(Exception):
    """The settings are not usable. `lines` says what is wrong, one entry a fault, without any secret value."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


def load_settings(file: Path | None = None, overrides: Mapping[str, Any] | None = None) -> Settings:
    """Read and validate the settings.

    `file` must exist when given; without it `isotherm.toml` of the working directory is read if it is there.
    `overrides` is a nested mapping that is stronger than every source. Errors: SettingsRefused.
    """
    if file is not None and not file.is_file():
        raise SettingsRefused([f"{file}: no such file"])
    path = file or Path(FILE_NAME)
    unknown = list(_unknown_names())
    try:
        sourced = _sourced(path)(**dict(overrides or {}))
    except ValidationError as error:
        raise SettingsRefused([*unknown, *_lines_of(error)]) from None  # the cause would print the values
    except (SettingsError, ValueError, OSError) as error:
        raise SettingsRefused([*unknown, f"{path}: {error}"]) from None
    if unknown:
        raise SettingsRefused(unknown)
    return Settings.model_validate(sourced.model_dump())


def dump_settings(settings: Settings) -> str:
    """The tree as JSON, secrets included: for a child process, never for a log."""
    data = settings.model_dump(mode="json")
    data["root_secret_key"] = settings.root_secret_key.get_secret_value()
    data["admin_token"] = settings.admin_token.get_secret_value()
    for dumped, target in zip(data["notifications"]["targets"], settings.notifications.targets, strict=True):
        dumped["secret"] = target.secret.get_secret_value()
    data["encryption"]["transit_token"] = settings.encryption.transit_token.get_secret_value()
    return json.dumps(data)


def parse_settings(text: str) -> Settings:
    """Inverse of `dump_settings`; reads no file and no environment."""
    return Settings.model_validate_json(text)


class _Aliases(InitSettingsSource):
    """Foreign environment names, used only where our own are absent."""

    def __init__(self, settings_class: type[BaseSettings], environment: Mapping[str, str]) -> None:
        values = {field: environment[name] for name, field in ALIASES.items() if environment.get(name)}
        super().__init__(settings_class, values)


def _sourced(path: Path) -> Callable[..., Settings]:
    """A Settings class that reads `path`; the class is the place where pydantic-settings wants its sources named."""

    class Sourced(Settings, BaseSettings):
        model_config = SettingsConfigDict(env_prefix=PREFIX, env_nested_delimiter="__", env_ignore_empty=True)

        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            del dotenv_settings, file_secret_settings  # a hidden file must not decide who is root
            toml = TomlConfigSettingsSource(settings_cls, toml_file=path)
            return init_settings, env_settings, toml, _Aliases(settings_cls, os.environ)

    return Sourced


def _lines_of(error: ValidationError) -> Iterator[str]:
    """Each fault as `section.field: what is wrong`, without the value: it may be a secret."""
    for fault in error.errors(include_url=False, include_input=False, include_context=False):
        where = ".".join(str(part) for part in fault["loc"])
        text = "is not a setting" if fault["type"] == "extra_forbidden" else fault["msg"].removeprefix("Value error, ")
        yield f"{where}: {text}" if where else text


def _unknown_names() -> Iterator[str]:
    """Environment names with our prefix that no setting reads: a typing error must not be silently ignored."""
    known = {f"{PREFIX}{name}".upper() for name, _ in setting_names()} | CLIENT_NAMES
    for name, value in sorted(os.environ.items()):
        if name.startswith(PREFIX) and name.upper() not in known and not _KUBERNETES.fullmatch(f"{name}={value}"):
            yield f"{name}: is not a setting"


def setting_names() -> Iterator[tuple[str, FieldInfo]]:
    """Every leaf of the tree as its environment name (without prefix) and its field, in the order of the tree."""
    for name, field in Settings.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, BaseModel):
            for inner, leaf in section.model_fields.items():
                yield f"{name}__{inner}", leaf
        else:
            yield name, field
