"""Owners as clients are told them: an id and a name."""

from collections.abc import Iterable, Mapping

from gateway.auth.acl import ANONYMOUS_OWNER_ID, Ownership
from gateway.auth.keyring import ANONYMOUS
from gateway.s3 import xml
from gateway.s3.request import Request


async def display_names(request: Request, owner_ids: Iterable[str]) -> dict[str, str]:
    """The names of some owners; who is no principal any more is called by the id."""
    wanted = set(owner_ids)
    known = await request.namespace.principals.names(wanted)
    return {owner_id: ANONYMOUS.name if owner_id == ANONYMOUS_OWNER_ID else known[owner_id] for owner_id in wanted}


async def owner_element(request: Request, owner_id: str, name: str = "Owner") -> str:
    """The Owner (or Initiator) element of one principal."""
    names = await display_names(request, (owner_id,))
    return xml.owner(owner_id, names[owner_id], name)


async def object_owners(request: Request, owner_ids: Iterable[str]) -> Mapping[str, str]:
    """Owner elements by the stored owner of objects of the request's bucket.

    Where lists do not count, whoever wrote an object, it is the bucket's owner's.
    """
    wanted, bucket = set(owner_ids), request.owned_bucket
    if not wanted - {bucket.owner_id}:
        return {owner_id: await owner_element(request, owner_id) for owner_id in wanted}
    configuration = await request.configuration()
    if configuration.ownership is Ownership.ENFORCED:
        return dict.fromkeys(wanted, await owner_element(request, bucket.owner_id))
    names = await display_names(request, wanted)
    return {owner_id: xml.owner(owner_id, names[owner_id]) for owner_id in wanted}
