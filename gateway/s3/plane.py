"""The S3 data plane: what the protocol class and the ASGI application hand requests to."""

from gateway.http.call import Answer, Call
from gateway.s3.cors import ORIGIN
from gateway.s3.cross_origin import add_lines
from gateway.s3.endpoint import Route, answer_for, find_route, serve
from gateway.s3.errors import S3Error
from gateway.s3.operations import PREFLIGHT
from gateway.s3.request import Services

__all__ = ["S3Plane", "Services"]


class S3Plane:
    """Implements `gateway.http.call.Plane`. One instance a process."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._routed: tuple[Call, Route] | None = None
        """The route of the request last asked about, so that the lane does not parse it twice."""

    def takes(self, call: Call) -> bool:
        """See `Plane.takes`: the frequent operations, and nothing that cannot be routed."""
        try:
            route = find_route(call, self._services)
        except S3Error:
            return False
        self._routed = (call, route)
        return route.operation.is_lane

    async def answer(self, call: Call) -> Answer:
        """See `Plane.answer`."""
        routed, self._routed = self._routed, None
        route = routed[1] if routed is not None and routed[0] is call else None
        try:
            answer = await serve(call, self._services, route)
        except Exception as error:  # noqa: BLE001  # the one place where every fault of a request becomes its answer
            answer = answer_for(error, call, self._services)
        if ORIGIN in call.fields and call.operation != PREFLIGHT.name:
            await add_lines(answer, call, self._services)
        return answer
