"""`GET /promptpath/requests/{id}`: where one request's time went. Without an id: a list."""

from __future__ import annotations

from reference_server.api.admission import authenticate
from reference_server.api.errors import ApiError
from reference_server.api.service import Service, respond_json
from reference_server.asgi import Exchange

PREFIX = "/promptpath/requests/"
_LISTED = 100


async def latest(service: Service, exchange: Exchange) -> None:
    """The caller's latest requests, the newest first. Raises ApiError 401."""
    caller = authenticate(service, exchange)
    now_ns = exchange.now()
    trips = service.trips.latest(caller.id, _LISTED)
    await respond_json(exchange, 200, {"requests": [trip.summary(now_ns) for trip in trips]})


async def one(service: Service, exchange: Exchange) -> None:
    """The timeline of one of the caller's requests. Raises ApiError 401, 404."""
    caller = authenticate(service, exchange)
    trip = service.trips.find(exchange.path.removeprefix(PREFIX), caller.id)
    if trip is None:
        raise ApiError(404, "not_found", "No such request, or it was forgotten meanwhile.")
    await respond_json(exchange, 200, trip.document(exchange.now()))
