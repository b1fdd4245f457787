"""Signatures and arguments of FastAPI and Starlette endpoints, for the decorator."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection
from starlette.responses import Response

T = TypeVar("T")

REQUEST = "tidegate_request"
RESPONSE = "tidegate_response"


def pop_argument(
    name: str, kind: type[T], signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> T | None:
    """Returns the argument that was added to the signature under this name, else any argument of this type.

    The added argument is removed from ``kwargs`` unless the endpoint, or a decorator below, has it as well.
    """
    added: T | None = kwargs.get(name) if name in signature.parameters else kwargs.pop(name, None)
    if added is not None:
        return added
    return next((value for value in (*args, *kwargs.values()) if isinstance(value, kind)), None)


def run_in_thread(endpoint: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    """Returns an async function that runs a sync endpoint in a thread, so that it blocks no other request."""

    @functools.wraps(endpoint)
    async def call(*args: Any, **kwargs: Any) -> Any:
        return await run_in_threadpool(endpoint, *args, **kwargs)

    return call


def resolved_signature(endpoint: Callable[..., Any]) -> inspect.Signature:
    """Returns the signature of an endpoint; annotations that are strings are resolved."""
    signature = inspect.signature(endpoint)
    try:
        hints = typing.get_type_hints(endpoint, include_extras=True)
    except (NameError, TypeError):
        return signature
    parameters = [
        parameter.replace(annotation=hints.get(name, parameter.annotation))
        for name, parameter in signature.parameters.items()
    ]
    return signature.replace(
        parameters=parameters, return_annotation=hints.get("return", signature.return_annotation)
    )


def with_parameters(signature: inspect.Signature) -> inspect.Signature:
    """Returns a signature with a connection and a response added, which FastAPI then passes to the endpoint.

    A connection is the base class of requests and websockets. FastAPI passes each type to one parameter only,
    so an endpoint that has such a parameter keeps it. Starlette does not look at the signature.
    """
    parameters = list(signature.parameters.values())
    last = parameters.pop() if parameters and parameters[-1].kind is inspect.Parameter.VAR_KEYWORD else None
    for name, kind in ((REQUEST, HTTPConnection), (RESPONSE, Response)):
        if not any(parameter.annotation is kind for parameter in parameters):
            parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind))
    if last is not None:
        parameters.append(last)
    return signature.replace(parameters=parameters)
