"""What the admin handlers work with, joined by the composition root."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Protocol

from fastapi import Depends, Request

from gateway.admin.paging import Cursors
from gateway.admin.replays import Replays
from metadata.contract import Reader
from tiers.commit.contract import Committer
from tiers.lifecycle.mover import Mover


class Space(Protocol):
    """Space of a device in bytes; `tiers.devices.contract.Capacity` satisfies it."""

    @property
    def total_bytes(self) -> int: ...
    @property
    def free_bytes(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Services:
    """Everything an admin handler may use.

    `seal` makes the envelope of a secret key from principal id, key id and secret. `space` asks every device for its
    space, None for one that does not answer. `expose` is the metrics text of all processes. `facts` is what
    `GET /admin/v1/info` says.
    """

    reader: Reader
    committer: Committer
    cursors: Cursors
    replays: Replays
    seal: Callable[[str, str, bytes], bytes]
    new_id: Callable[[], bytes]
    space: Callable[[], Awaitable[Mapping[str, Space | None]]]
    mover: Mover
    expose: Callable[[], bytes]
    facts: Mapping[str, str | int]


def services_of(request: Request) -> Services:
    """The services of the application that serves `request`."""
    services = request.app.state.services
    assert isinstance(services, Services)
    return services


Serving = Annotated[Services, Depends(services_of)]
