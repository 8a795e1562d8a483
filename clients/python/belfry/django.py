"""The receiver as a decorator of Django's views."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from .receiver import Delivery, Receiver, VerificationError

View = Callable[..., HttpResponseBase | None]


def delivery_view(receiver: Receiver) -> Callable[[View], Callable[..., HttpResponseBase]]:
    """Returns a decorator for views `view(request, delivery)`. A refused request never reaches the view. A view without
    an answer acknowledges the delivery."""

    def decorate(view: View) -> Callable[..., HttpResponseBase]:
        @wraps(view)
        def verified(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            try:
                delivery: Delivery = receiver.verify(request.headers, request.body)
            except VerificationError as err:
                return HttpResponse(str(err), status=err.status, content_type="text/plain")
            return view(request, delivery, *args, **kwargs) or HttpResponse(status=204)

        return csrf_exempt(verified)

    return decorate
