"""The commands that run on the store's own host: serve, doctor, rebuild, version."""

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from gateway.cli import move_verbs, quota_verbs, verbs
from gateway.cli.output import err, fail, out, show_json, show_table
from gateway.settings.first_start import Fresh, SecretsRefused
from gateway.settings.sources import SettingsRefused, load_settings
from gateway.settings.tree import Settings
from gateway.settings.version import package_version

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Isotherm: one S3 store over four tiers.",
)
for name, group in (
    ("user", verbs.user), ("key", verbs.key), ("device", verbs.device), ("tier", verbs.tier), ("bucket", verbs.bucket),
    ("quota", quota_verbs.quota), ("move", move_verbs.move),
):  # fmt: skip
    app.add_typer(group, name=name)

Config = Annotated[
    Path | None,
    typer.Option("--config", envvar="ISOTHERM_CONFIG", help="Settings file; default isotherm.toml if it is there."),
]
Data = Annotated[Path | None, typer.Option("--data", help="Data directory (ISOTHERM_DATA).")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def main() -> None:
    """Entry point of the console script."""
    app()


@app.command()
def serve(
    config: Config = None,
    data: Data = None,
    *,
    host: Annotated[str, typer.Option(help="Address of the S3 port.")] = "",
    port: Annotated[int | None, typer.Option(help="S3 port; 0 takes a free one.")] = None,
    admin_port: Annotated[int | None, typer.Option(help="Admin port; 0 takes a free one.")] = None,
    workers: Annotated[int | None, typer.Option(help="Data workers; 0 is one for each core.")] = None,
) -> None:
    """Run the gateway: data workers on the S3 port, admin API, metrics and background work on the admin port."""
    from gateway.app.hold import held
    from gateway.app.prepare import prepare  # here, so that `isotherm version` need not load the whole store
    from gateway.supervisor import KILL_SECONDS, StartFailed, Supervisor
    from gateway.telemetry.logs import configure_logs
    from metadata.errors import StorageError

    server = {"host": host or None, "port": port, "admin_port": admin_port, "workers": workers}
    overrides = _overrides(data, server)
    settings = _settings(config, overrides)
    configure_logs(settings.log_level, "supervisor")
    try:
        with held(settings, wait_seconds=settings.limits.drain_seconds + KILL_SECONDS) as hold:
            fresh = asyncio.run(prepare(settings))
            _announce_secrets(fresh)
            supervisor = Supervisor(settings, lambda: load_settings(config, overrides), _announce_addresses, hold)
            asyncio.run(supervisor.run())
    except (StartFailed, SecretsRefused, StorageError, OSError) as error:
        fail(str(error))


@app.command()
def doctor(config: Config = None, data: Data = None, *, as_json: Json = False) -> None:
    """Check settings, directories, database, file system and kernels; say what to do. Exit 1 if a start would fail."""
    from gateway.cli.doctor import Verdict, examine

    findings = list(examine(_settings(config, _overrides(data, {}))))
    rows = [asdict(finding) for finding in findings]
    if as_json:
        show_json(rows)
    else:
        show_table(rows, {"check": "CHECK", "verdict": "VERDICT", "detail": "DETAIL", "advice": "ADVICE"})
    if any(finding.verdict is Verdict.FAIL for finding in findings):
        raise typer.Exit(1)


@app.command()
def rebuild(config: Config = None, data: Data = None, *, as_json: Json = False) -> None:
    """Make the metadata database anew from the devices alone. The gateway must not run, the database must be empty."""
    from gateway.app.hold import held
    from gateway.app.prepare import rebuild_metadata
    from metadata.errors import StorageError

    settings = _settings(config, _overrides(data, {}))
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
    with Progress(*columns, TimeElapsedColumn(), console=err) as bar:
        tasks: dict[str, TaskID] = {}

        def progress(phase: str, done: int, total: int) -> None:
            if phase not in tasks:
                tasks[phase] = bar.add_task(phase, total=total)
            bar.update(tasks[phase], completed=done, total=total)

        try:
            with held(settings):
                rebuilt = rebuild_metadata(settings, progress)
        except (StorageError, OSError) as error:
            fail(str(error))
    result = asdict(rebuilt)
    if as_json:
        show_json(result)
    else:
        out.print(f"rebuilt: {rebuilt.snapshot_rows} rows of a snapshot, {rebuilt.batches} batches of the commit log")


@app.command(name="rotate-key")
def rotate_key(
    name: Annotated[str, typer.Argument(help="Key to rotate: sse-s3, or one of encryption.kms_keys.")] = "sse-s3",
    config: Config = None,
    data: Data = None,
    *,
    as_json: Json = False,
) -> None:
    """Add a version to an encryption key of the store's key file; what older versions wrapped stays readable.

    The gateway may run: it wraps with the new version at once. Back the file up afterwards.
    """
    from gateway.app.encryption_keys import key_file, rotate_key

    settings = _settings(config, _overrides(data, {}))
    try:
        version = rotate_key(settings, name)
    except (SecretsRefused, OSError) as error:
        fail(str(error))
    if as_json:
        show_json({"name": name, "version": version})
    else:
        out.print(f"key {name} has version {version}; back up {key_file(settings)}", soft_wrap=True)


@app.command(name="version")
def show_version(*, as_json: Json = False) -> None:
    """Print the version."""
    if as_json:
        show_json({"version": package_version()})
    else:
        out.print(package_version())


def _overrides(data: Path | None, server: dict[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in server.items() if value is not None}
    return {**({"data": data} if data is not None else {}), **({"server": given} if given else {})}


def _settings(config: Path | None, overrides: dict[str, Any]) -> Settings:
    try:
        return load_settings(config, overrides)
    except SettingsRefused as error:
        fail("the settings are not usable:\n  " + "\n  ".join(error.lines), code=2)


def _announce_secrets(fresh: Fresh) -> None:
    """The one print of what this start generated; to the terminal or container output, never to a log."""
    if fresh.root_access_key:
        out.print("Generated for the root account, shown this once:")
        out.print(f"  access key  {fresh.root_access_key}\n  secret key  {fresh.root_secret_key}", soft_wrap=True)
    if fresh.admin_token:
        out.print(f"Generated admin token, shown this once:\n  {fresh.admin_token}", soft_wrap=True)


def _announce_addresses(data: str, admin: str) -> None:
    out.print(f"Isotherm {package_version()} serves S3 on {data} and its admin API on {admin}", soft_wrap=True)
    out.file.flush()
