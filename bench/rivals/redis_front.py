"""A small HTTP front before Redis: GET /KEY answers with the key's value as JSON.

It runs on the library that ours runs on: uvicorn, which takes httptools by itself where that is installed.

`--serve` is the server alone; without it, fills a Redis with a million keys, serves it and measures look-ups.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent


@contextmanager
def redis_server() -> Iterator[int]:
    """Run a Redis that keeps everything in memory, and yield its port."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        command = ["redis-server", "--port", str(port), "--save", "", "--appendonly", "no", "--dir", folder]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            wait_for(port)
            yield port
        finally:
            server.terminate()
            server.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port: int, seconds: float = 60.0) -> None:
    """Return when someone listens."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    msg = f"nobody listens on port {port}"
    raise TimeoutError(msg)


def serve(redis_port: int, port: int) -> None:
    """Serve look-ups."""
    import redis.asyncio
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    client = redis.asyncio.Redis(port=redis_port)

    async def get(request: Request) -> Response:
        key = request.path_params["key"]
        value = await client.get(key)
        found = {"key": key, "found": value is not None, "value": None if value is None else json.loads(value)}
        return Response(json.dumps(found), media_type="application/json")

    app = Starlette(routes=[Route("/{key}", get)])
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", access_log=False)


@contextmanager
def front(redis_port: int) -> Iterator[int]:
    """Run the front in a process of its own, and yield its port."""
    port = free_port()
    server = subprocess.Popen([sys.executable, __file__, "--serve", "--redis", str(redis_port), "--port", str(port)])
    try:
        wait_for(port)
        yield port
    finally:
        server.terminate()
        server.wait()


def fill(redis_port: int, keys: int) -> None:
    """Put a number under every key."""
    import redis

    client = redis.Redis(port=redis_port)
    for start in range(0, keys, 10_000):
        client.mset({str(key): str(key * 3) for key in range(start, min(keys, start + 10_000))})


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--redis", type=int, default=0, help="the port of a Redis that runs")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    args = parser.parse_args()
    if args.serve:
        serve(args.redis, args.port)
        return
    with redis_server() as redis_port:
        fill(redis_port, args.keys)
        with front(redis_port) as port:
            load = ["--port", str(port), "--path", "/", "--keys", str(args.keys), "--seconds", str(args.seconds)]
            subprocess.run([sys.executable, str(HERE / "http_load.py"), *load], check=True, env=os.environ)


if __name__ == "__main__":
    main()
