"""Admin tokens and scopes: who may call which route, decided before a request's body is read.

A token travels in the Authorization header only. It is known by its SHA-256, compared in constant time, and guessed at
most a few times a minute from one source.
"""

import hmac
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from hashlib import sha256
from typing import Final, NamedTuple

from gateway.admin.problems import Problem

WINDOW_SECONDS: Final = 60.0
SOURCES_MAX: Final = 10_000
"""Sources whose failures are remembered; beyond, the one seen longest ago is forgotten."""

TOKEN_BYTES_MAX: Final = 512


class Scope(StrEnum):
    """What a route needs. A token's scopes include others, see `INCLUDES`."""

    ADMIN = "admin"
    OPERATOR = "operator"
    READ = "read"
    METRICS = "metrics"


INCLUDES: Final[Mapping[Scope, frozenset[Scope]]] = {
    Scope.ADMIN: frozenset(Scope),
    Scope.OPERATOR: frozenset({Scope.OPERATOR, Scope.READ, Scope.METRICS}),
    Scope.READ: frozenset({Scope.READ, Scope.METRICS}),
    Scope.METRICS: frozenset({Scope.METRICS}),
}


class Token(NamedTuple):
    """An admin token without its value. `expires` is seconds since the epoch, 0 for never."""

    name: str
    sha256: str
    scopes: frozenset[Scope]
    expires: float = 0.0

    def grants(self, scope: Scope) -> bool:
        """Whether the token may call a route of that scope."""
        return any(scope in INCLUDES[own] for own in self.scopes)


class Failures:
    """Counts bad tokens by source within the last minute. Bounded memory."""

    def __init__(self, per_minute: int, clock: Callable[[], float]) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._times: OrderedDict[str, deque[float]] = OrderedDict()

    def add(self, source: str) -> None:
        """Note a failure."""
        times = self._times.setdefault(source, deque(maxlen=self._per_minute))
        times.append(self._clock())
        self._times.move_to_end(source)
        if len(self._times) > SOURCES_MAX:
            self._times.popitem(last=False)

    def wait_seconds(self, source: str) -> float:
        """How long the source must wait before it is heard again; 0 when it need not."""
        times = self._times.get(source)
        if times is None or len(times) < self._per_minute:
            return 0.0
        return max(0.0, times[0] + WINDOW_SECONDS - self._clock())


class Gatekeeper:
    """Turns an Authorization header into a token, or refuses."""

    def __init__(self, tokens: Iterable[Token], *, failures_per_minute: int, clock: Callable[[], float]) -> None:
        self._tokens = tuple(tokens)
        self._clock = clock
        self._failures = Failures(failures_per_minute, clock)

    def admit(self, authorization: str | None, *, source: str, scope: Scope | None) -> Token:
        """The token that may do this. `scope` None means any valid token (an unknown path reveals nothing else).

        Errors: Problem 401 without a usable token, 403 when it lacks the scope or another scheme is used, 429 after
        too many failures from the source, then also for a good token: an answer must not tell which guess was right.
        """
        wait = self._failures.wait_seconds(source)
        if wait:
            raise Problem(
                429, "TooManyFailures", "Too many failed attempts.", headers={"retry-after": str(int(wait) + 1)}
            )
        if authorization is None:
            raise _unauthorised("A bearer token is required.")
        scheme, _, value = authorization.partition(" ")
        if scheme.lower() != "bearer":
            raise Problem(403, "SchemeNotAccepted", "Only bearer tokens are accepted here.")
        token = self._find(value.strip())
        if token is None:
            self._failures.add(source)
            raise _unauthorised("The token is not valid.")
        if scope is not None and not token.grants(scope):
            raise Problem(403, "ScopeMissing", f"The token lacks the scope {scope.value}.")
        return token

    def _find(self, value: str) -> Token | None:
        """Compares with every token, so that time tells nothing about which one came close."""
        digest = sha256(value[:TOKEN_BYTES_MAX].encode("utf-8", "surrogateescape")).hexdigest()
        found: Token | None = None
        for token in self._tokens:
            if hmac.compare_digest(token.sha256, digest):
                found = token
        if found is not None and found.expires and found.expires <= self._clock():
            return None
        return found


def _unauthorised(detail: str) -> Problem:
    return Problem(401, "Unauthorised", detail, headers={"www-authenticate": 'Bearer realm="isotherm"'})
