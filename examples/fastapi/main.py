"""A FastAPI app whose requests a Tidegate service limits. README.md beside this file says how to start it."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import Depends, FastAPI, Request
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, Field

from tidegate import Reservation, Tidegate, by_header
from tidegate.fastapi import install, limit, reserve

client = Tidegate(
    os.environ.get("TIDEGATE_URL"),
    fallback=os.environ.get("TIDEGATE_FALLBACK", "local"),  # type: ignore[arg-type]
)


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Closes the client's connections at the end."""
    async with client:
        yield


app = FastAPI(lifespan=lifespan)
install(app, client=client, trusted_proxies=["127.0.0.1/32"])


@app.get("/", response_class=PlainTextResponse)
async def hello() -> str:
    """Not limited."""
    return "hello"


@app.get("/health", response_class=PlainTextResponse)
async def health() -> str:
    """Not limited either: whoever looks after the app asks often."""
    return "ok"


@app.get("/search", dependencies=[Depends(limit("5/minute;100/hour", name="search"))])
async def search(q: str = "") -> dict[str, list[str]]:
    """Limits in code, for each client's address."""
    return {"results": []}


def order(request: Request) -> list[tuple[str, str]]:
    """What the service's rules about orders look at."""
    return [("api_key", request.headers.get("x-api-key") or "anonymous"), ("endpoint", "POST /v1/orders")]


@app.post("/orders", status_code=201, dependencies=[Depends(limit(domain="api_platform", descriptors=order))])
async def orders() -> dict[str, str]:
    """Rules of the service, for each customer."""
    return {"order": "accepted"}


def pages(request: Request) -> int:
    """A long report costs more, and none costs nothing."""
    try:
        return max(1, int(request.query_params.get("pages", "1")))
    except ValueError:
        return 1


@app.post(
    "/reports",
    dependencies=[Depends(limit("10/minute", name="reports", cost=pages, key=by_header("x-api-key")))],
)
async def reports() -> dict[str, str]:
    """A cost that depends on the request, for each customer, or address where there is no key."""
    return {"report": "done"}


class Prompt(BaseModel):
    """A request to a language model, which says here what it will use."""

    prompt: str
    max_tokens: int = Field(ge=0)
    used: int = Field(ge=0)


def most_tokens(prompt: Prompt) -> int:
    """The most that a request can use."""
    return prompt.max_tokens


tokens = reserve("1000/minute", cost=Depends(most_tokens), name="complete", key=by_header("x-api-key"))


@app.post("/complete")
async def complete(prompt: Prompt, reservation: Reservation = Depends(tokens)) -> dict[str, int]:
    """A cost that is known only afterwards: the most it can be is reserved, and what was used is settled."""
    used = prompt.used  # the model works here
    reservation.settle(used)
    return {"used": used}


def main() -> None:
    """Listens on PORT of the loopback address; 0 is a free one."""
    listener = socket.create_server(("127.0.0.1", int(os.environ.get("PORT", "8000"))))

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}", flush=True)

    # The app itself decides which proxies to believe, so uvicorn does not.
    Server(uvicorn.Config(app, log_level="warning", proxy_headers=False)).run(sockets=[listener])


if __name__ == "__main__":
    main()
