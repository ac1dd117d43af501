"""What a request that goes to the application gets instead of uvicorn's own objects.

uvicorn's request cycle talks to a transport and a flow control. These stand in for them, so that `100 Continue`,
deadlines and the end of a connection follow the same rules on both ways.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from uvicorn.protocols.http.flow_control import FlowControl

REVIVE: Final = "isotherm.revive"
"""Key in `scope["state"]`: a callable that lets the answer out after the client has only stopped sending.

Its presence also says that the header guard has judged the request.
"""


class BodyFlow(FlowControl):
    """Flow control that says when the application wants more of the body."""

    def __init__(self, transport: asyncio.Transport, wanted: Callable[[], None]) -> None:
        super().__init__(transport)
        self._wanted: Callable[[], None] | None = wanted

    def resume_reading(self) -> None:
        """uvicorn calls this when the application waits in `receive`, and after an answer."""
        if self._wanted is not None:
            self._wanted()
        super().resume_reading()

    def release(self) -> None:
        """Forget the connection, which is gone."""
        self._wanted = None


class Ending(Protocol):
    """A connection that knows how to end gently."""

    transport: asyncio.Transport

    def hang_up(self) -> None: ...


class AnswerEnd:
    """The part of a transport that a request cycle uses; `close` ends the connection without eating the answer."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Ending) -> None:
        self._connection = connection

    def write(self, data: bytes) -> None:
        """As the transport."""
        self._connection.transport.write(data)

    def is_closing(self) -> bool:
        """As the transport."""
        return self._connection.transport.is_closing()

    def close(self) -> None:
        """After everything written has left."""
        self._connection.hang_up()
