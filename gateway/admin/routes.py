"""THE list of admin routes. A row without a scope cannot be written; a route outside the table does not exist."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from gateway.admin import keys, moves, quotas, storage, system, users
from gateway.admin.access import Scope

PREFIX: Final = "/admin/v1"


@dataclass(frozen=True, slots=True)
class Route:
    """One admin route: where, what it needs, who serves it, and the status of its success."""

    method: str
    path: str
    scope: Scope
    handler: Callable[..., Any]
    status: int = 200

    def __post_init__(self) -> None:
        assert isinstance(self.scope, Scope), f"{self.path} declares no scope"
        assert self.handler.__doc__, f"{self.path} is not documented"


# fmt: off
ROUTES: Final[tuple[Route, ...]] = (
    Route("GET", f"{PREFIX}/info", Scope.READ, system.show_info),
    Route("GET", f"{PREFIX}/users", Scope.READ, users.list_users),
    Route("POST", f"{PREFIX}/users", Scope.ADMIN, users.create_user, 201),
    Route("GET", f"{PREFIX}/users/{{user_id}}", Scope.READ, users.show_user),
    Route("PATCH", f"{PREFIX}/users/{{user_id}}", Scope.ADMIN, users.edit_user),
    Route("DELETE", f"{PREFIX}/users/{{user_id}}", Scope.ADMIN, users.delete_user, 204),
    Route("GET", f"{PREFIX}/users/{{user_id}}/keys", Scope.READ, keys.list_user_keys),
    Route("POST", f"{PREFIX}/users/{{user_id}}/keys", Scope.ADMIN, keys.create_key, 201),
    Route("GET", f"{PREFIX}/keys", Scope.READ, keys.list_keys),
    Route("DELETE", f"{PREFIX}/keys/{{access_key_id}}", Scope.ADMIN, keys.revoke_key, 204),
    Route("GET", f"{PREFIX}/devices", Scope.READ, storage.list_devices),
    Route("GET", f"{PREFIX}/devices/{{device_id}}", Scope.READ, storage.show_device),
    Route("GET", f"{PREFIX}/tiers", Scope.READ, storage.list_tiers),
    Route("GET", f"{PREFIX}/tiers/{{tier}}", Scope.READ, storage.show_tier),
    Route("GET", f"{PREFIX}/buckets", Scope.READ, storage.list_buckets),
    Route("GET", f"{PREFIX}/buckets/{{bucket}}", Scope.READ, storage.show_bucket),
    Route("GET", f"{PREFIX}/users/{{user_id}}/quota", Scope.READ, quotas.show_user_quota),
    Route("PUT", f"{PREFIX}/users/{{user_id}}/quota", Scope.ADMIN, quotas.set_user_quota),
    Route("GET", f"{PREFIX}/users/{{user_id}}/tenant", Scope.READ, quotas.show_user_tenant),
    Route("PUT", f"{PREFIX}/users/{{user_id}}/tenant", Scope.ADMIN, quotas.set_user_tenant),
    Route("GET", f"{PREFIX}/buckets/{{bucket}}/quota", Scope.READ, quotas.show_bucket_quota),
    Route("PUT", f"{PREFIX}/buckets/{{bucket}}/quota", Scope.ADMIN, quotas.set_bucket_quota),
    Route("GET", f"{PREFIX}/tenants/{{tenant}}/quota", Scope.READ, quotas.show_tenant_quota),
    Route("PUT", f"{PREFIX}/tenants/{{tenant}}/quota", Scope.ADMIN, quotas.set_tenant_quota),
    Route("GET", f"{PREFIX}/keys/{{access_key_id}}/rate", Scope.READ, quotas.show_key_rate),
    Route("PUT", f"{PREFIX}/keys/{{access_key_id}}/rate", Scope.ADMIN, quotas.set_key_rate),
    Route("GET", f"{PREFIX}/moves", Scope.READ, moves.list_moves),
    Route("POST", f"{PREFIX}/moves", Scope.OPERATOR, moves.create_move, 202),
    Route("GET", f"{PREFIX}/moves:queue", Scope.READ, moves.show_queue),
    Route("POST", f"{PREFIX}/moves:pause", Scope.OPERATOR, moves.pause_moves),
    Route("POST", f"{PREFIX}/moves:resume", Scope.OPERATOR, moves.resume_moves),
    Route("GET", f"{PREFIX}/moves/{{move_id}}", Scope.READ, moves.show_move),
    Route("DELETE", f"{PREFIX}/moves/{{move_id}}", Scope.OPERATOR, moves.delete_move),
    Route("GET", f"{PREFIX}/objects/{{bucket}}/{{key:path}}/placement", Scope.READ, moves.show_placement),
    Route("GET", "/admin/openapi.json", Scope.READ, system.show_openapi),
    Route("GET", "/metrics", Scope.METRICS, system.show_metrics),
)
# fmt: on
