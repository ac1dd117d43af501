"""What happens once, before any process serves: secrets, schema, recovery, first rows. And the rebuild."""

import asyncio
from collections.abc import Callable
from secrets import token_bytes

from gateway.app.credentials import ensure_root, prepare_master
from gateway.app.encryption_keys import prepare_keys
from gateway.app.sources import clock
from gateway.app.store import (
    PREPARE_INDEX,
    default_catalogue,
    new_committer,
    new_namespace,
    open_fleet,
    open_store_metadata,
    stored_catalogue,
    worker_number,
)
from gateway.auth.secrets import SecretBox, generate_access_key
from gateway.s3.new_buckets import first_documents
from gateway.settings.first_start import Fresh, prepare_secrets
from gateway.settings.tree import Settings
from metadata.contract import Metadata, Reader
from metadata.types import Versioning
from tiers.catalogue import Catalogue
from tiers.commit.committer import GroupCommitter
from tiers.commit.rebuild import Rebuilt, rebuild
from tiers.commit.recovery import recover
from tiers.devices.fleet import Fleet
from tiers.devices.posix import flush_directory
from tiers.errors import BucketNameTaken
from tiers.namespace.accounts import ROOT_PRINCIPAL_ID
from tiers.namespace.namespace import Namespace
from tiers.namespace.topology import EnsureTopology

Progress = Callable[[str, int, int], None]


async def prepare(settings: Settings) -> Fresh:
    """Make the store ready to be served; returns what was generated, for the one print.

    May be killed at any instant and run again. Errors: SecretsRefused, StorageError, OSError; then nothing must serve.
    """
    settings.data.mkdir(parents=True, exist_ok=True)
    secrets, fresh = prepare_secrets(settings, lambda: generate_access_key(token_bytes))
    metadata = open_store_metadata(settings)
    metadata.migrate()
    metadata.check()
    reader = await metadata.open_reader()
    try:
        box = SecretBox(await prepare_master(settings, reader), token_bytes)
        catalogue, _ = await stored_catalogue(settings, reader)
        fleet = open_fleet(settings, catalogue)
        try:
            await asyncio.to_thread(_recover, settings, metadata, fleet)
            committer = new_committer(settings, metadata, catalogue, fleet, PREPARE_INDEX)
            await committer.start()
            try:
                await _enter_topology(settings, reader, committer)
                await ensure_root(reader, committer, box, secrets)
                await prepare_keys(settings, reader, committer)
                namespace = new_namespace(settings, reader, catalogue, fleet, committer=committer)
                await _create_buckets(settings, namespace)
            finally:
                await committer.stop()
        finally:
            fleet.close()
    finally:
        await reader.close()
    # The names of database, devices and secrets, and of their directory: nobody is answered before they are durable.
    flush_directory(settings.data)
    flush_directory(settings.data.absolute().parent)
    return fresh


def _recover(settings: Settings, metadata: Metadata, fleet: Fleet) -> None:
    recover(metadata, fleet, adopter=worker_number(settings, PREPARE_INDEX))


async def _enter_topology(settings: Settings, reader: Reader, committer: GroupCommitter) -> None:
    """Recovery may have brought rows back, so look again before entering the first ones."""
    _, is_default = await stored_catalogue(settings, reader)
    if is_default:
        devices = Catalogue.default_devices(settings.data.absolute(), int(clock() * 1000))
        await committer.submit(EnsureTopology(tuple(Catalogue.default_tiers()), tuple(devices)))


async def _create_buckets(settings: Settings, namespace: Namespace) -> None:
    """Create the buckets of the settings that do not exist; those that do stay as they are."""
    documents = first_documents(ROOT_PRINCIPAL_ID, settings.s3.new_bucket_defaults)
    for wanted in settings.buckets:
        versioning = Versioning.ENABLED if wanted.is_versioned else Versioning.NEVER
        try:
            await namespace.buckets.create(
                wanted.name, ROOT_PRINCIPAL_ID, settings.server.region, documents=documents, versioning=versioning
            )
        except BucketNameTaken:
            continue


def rebuild_metadata(settings: Settings, progress: Progress) -> Rebuilt:
    """Fill an empty database from the devices. Errors: those of `tiers.commit.rebuild.rebuild`.

    The devices are those of the default layout: the database that names others is what is gone.
    """
    settings.data.mkdir(parents=True, exist_ok=True)
    metadata = open_store_metadata(settings)
    metadata.migrate()
    fleet = open_fleet(settings, default_catalogue(settings))
    try:
        return rebuild(metadata, fleet, progress=progress)
    finally:
        fleet.close()
