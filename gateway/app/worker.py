"""A data worker: S3 on the inherited socket, by the protocol class and the application behind it."""

import logging
from collections.abc import Callable
from secrets import token_bytes

from gateway.admin.front import FrontDoor, FrontPlane
from gateway.admin.health import health_application
from gateway.app.credentials import CredentialSource, derived_key, load_master
from gateway.app.encryption_keys import new_content_keys
from gateway.app.process import Process, connection_limits
from gateway.app.server_logs import new_server_log, open_server_log
from gateway.app.sources import clock, new_request_id, ticks
from gateway.app.store import IDLE_SECONDS, Store, close_idle, every, new_contents, new_namespace, open_store, running
from gateway.auth.authenticator import Authenticator
from gateway.auth.keyring import KeyRing
from gateway.auth.secrets import SecretBox
from gateway.http.asgi import AsgiApp
from gateway.http.letterhead import Letterhead
from gateway.http.private import private_api_intact
from gateway.http.protocol import protocol_class
from gateway.s3.addressing import Addressing
from gateway.s3.errors import S3Error
from gateway.s3.plane import S3Plane
from gateway.s3.request import Services
from gateway.s3.throttle import Throttle
from gateway.telemetry.meters import EventMeter, RequestMeter
from gateway.telemetry.observer import RequestObserver
from tiers.datapath.reader import ContentReader
from tiers.upkeep.vitals import Vitals

logger = logging.getLogger(__name__)


async def run_worker(process: Process) -> None:
    """Serve S3 until told to stop."""
    process.hear()
    settings, order = process.settings, process.order
    meters: list[Callable[[], None]] = []
    async with open_store(settings, order.name, order.index, purpose="client", meters=meters) as store:
        master_key = load_master(settings)
        throttle = Throttle(settings.server.worker_count, ticks)
        source = CredentialSource(store.reader, SecretBox(master_key, token_bytes), throttle.use_rates)
        keyring = KeyRing(await source.load(), refresh=source.load, clock=ticks)
        meter = RequestMeter(store.families)
        meters.append(meter.flush)
        addressing = Addressing(settings.server.domains)
        contents = new_contents(store)
        services = _services(store, contents, keyring, addressing, master_key=master_key, throttle=throttle)
        meters.append(EventMeter(store.families.events, lambda: {"dropped": services.namespace.events_dropped}).flush)
        delivery = open_server_log(store, services, meters)
        plane = FrontPlane(S3Plane(services), lambda host: _names_bucket(addressing, host))
        letterhead = Letterhead(clock, new_request_id, services.host_id)
        observer = RequestObserver(meter, store.access_log, clock)
        limits = connection_limits(settings)
        is_lane_open = settings.server.fast_lane and private_api_intact()
        store.families.fast_lane.labels(str(order.index)).set(is_lane_open)
        http_class = protocol_class(plane, limits, observer, letterhead=letterhead, is_lane_open=is_lane_open)
        vitals = Vitals(store.reader, store.fleet, store.catalogue, ticks)
        application = FrontDoor(
            health_application(vitals),
            AsgiApp(plane, limits, observer, letterhead=letterhead),
            lambda host: _names_bucket(addressing, host),
        )
        async with (
            running(every(settings.auth.poll_seconds, lambda: source.follow(keyring))),
            running(every(IDLE_SECONDS, lambda: close_idle(contents))),
            running(delivery.run()),
        ):
            await process.serve(application, http_class, is_data=True)
        await delivery.flush()


def _services(
    store: Store,
    contents: ContentReader,
    keyring: KeyRing,
    addressing: Addressing,
    *,
    master_key: bytes,
    throttle: Throttle,
) -> Services:
    settings = store.settings
    region = settings.server.region
    host_id = derived_key(master_key, "host id")[:18].hex()
    return Services(
        addressing=addressing,
        authenticator=Authenticator(
            keyring, region, clock, sigv2=settings.auth.sigv2, host_bucket=addressing.host_bucket
        ),
        namespace=new_namespace(
            settings,
            store.reader,
            store.catalogue,
            store.fleet,
            committer=store.committer,
            executor=store.executor,
            contents=contents,
        ),
        region=region,
        host_id=host_id,
        clock=clock,
        token_key=derived_key(master_key, "continuation tokens"),
        log_error=_log_error,
        content_keys=new_content_keys(settings, ticks),
        new_bucket_defaults=settings.s3.new_bucket_defaults,
        presigned_checksum=settings.s3.presigned_checksum,
        seconds_per_day=settings.seconds_per_day,
        throttle=throttle,
        notification_targets=frozenset(target.name for target in settings.notifications.targets),
        recreation=settings.s3.recreation,
        server_log=new_server_log(settings, host_id),
    )


def _names_bucket(addressing: Addressing, host: bytes) -> bool:
    """Whether a Host header names a bucket; one that is refused names none here and is refused where it counts."""
    try:
        return addressing.host_bucket(host) is not None
    except S3Error:
        return False


def _log_error(request_id: str, error: Exception) -> None:
    logger.error("request %s failed: %s", request_id, type(error).__name__, exc_info=error)
