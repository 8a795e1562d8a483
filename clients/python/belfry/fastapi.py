"""The receiver as a dependency of FastAPI."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import HTTPException, Request
from starlette.concurrency import run_in_threadpool

from .receiver import Delivery, Receiver, VerificationError


def delivery_of(receiver: Receiver) -> Callable[[Request], Awaitable[Delivery]]:
    """Returns a dependency that verifies the request. A refused one never reaches the route."""

    async def dependency(request: Request) -> Delivery:
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > receiver.max_body:
                break  # the receiver refuses it
        try:
            return await run_in_threadpool(receiver.verify, request.headers, bytes(body))
        except VerificationError as err:
            raise HTTPException(err.status, str(err)) from None

    return dependency
