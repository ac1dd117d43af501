"""Cross-origin answers of a bucket: preflights, and the lines that every other answer to a browser carries.

Neither asks who sent the request. What a bucket's rules say is no secret, and a bucket that does not exist is answered
as one without rules.
"""

from gateway.http.call import Answer, Call
from gateway.s3 import cors
from gateway.s3.cors import CorsRules
from gateway.s3.request import Services
from tiers.errors import BucketNotFound, StorageError


async def answer_preflight(call: Call, services: Services) -> Answer:
    """What a browser may send. Errors: BadRequest, AccessForbidden, those of the namespace."""
    return Answer(200, cors.lines_of_preflight(await _find_rules(call, services), call.fields))


async def add_lines(answer: Answer, call: Call, services: Services) -> None:
    """Tell a browser whether its page may read `answer`; for requests that name an origin.

    An answer that cannot be judged because the rules cannot be read stays without lines: the page may not read it.
    """
    try:
        rules = await _find_rules(call, services)
    except StorageError as error:
        services.log_error(call.request_id, error)
        return
    answer.headers = [*answer.headers, *cors.lines_of_request(rules, call.fields, call.method)]


async def _find_rules(call: Call, services: Services) -> CorsRules | None:
    if not call.bucket:
        return None
    try:
        bucket = await services.namespace.buckets.get(call.bucket)
    except BucketNotFound:
        return None
    return (await services.configuration(bucket)).cors
