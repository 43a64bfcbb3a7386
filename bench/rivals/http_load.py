"""Asks a server for random keys over HTTP, on connections that stay open: at a rate, or as fast as it answers.

One process for all contests, so that what the client costs is the same for every server. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import sys
import time
from collections import deque
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from report import emit, spread


class Connection(asyncio.Protocol):
    """Sends one request after the other; `due` says when the next may go."""

    def __init__(self, path: str, keys: int, host: str, gaps: float, until: float) -> None:
        self._path, self._keys, self._host, self._gap, self._until = path, keys, host, gaps, until
        self._buffer = b""
        self._sent = 0.0
        self._next = time.perf_counter() + random.random() * gaps
        self.latencies: list[float] = []
        self.missing = 0
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._later()

    def _later(self) -> None:
        now = time.perf_counter()
        if now >= self._until:
            self._transport.close()
            self.done.set_result(None)
        elif self._next > now:
            asyncio.get_running_loop().call_later(self._next - now, self._ask)
        else:
            self._ask()

    def _ask(self) -> None:
        key = random.randrange(self._keys)
        self._sent = time.perf_counter()
        self._next = max(self._next + self._gap, self._sent - 1.0)
        self._transport.write(f"GET {self._path}{key} HTTP/1.1\r\nHost: {self._host}\r\n\r\n".encode())

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, found, body = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        at = head.lower().find(b"content-length:")
        length = int(head[at + 15 :].split(b"\r\n", 1)[0])
        if len(body) < length:
            return
        self._buffer = b""
        self.latencies.append(time.perf_counter() - self._sent)
        self.missing += not head.startswith(b"HTTP/1.1 200")
        self._later()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)


async def load(args: argparse.Namespace) -> None:
    loop = asyncio.get_running_loop()
    until = time.perf_counter() + args.seconds
    gap = args.connections / args.rate if args.rate else 0.0
    host = f"127.0.0.1:{args.port}"
    made: deque[Connection] = deque()
    started = time.perf_counter()
    for _ in range(args.connections):
        _, connection = await loop.create_connection(
            lambda: Connection(args.path, args.keys, host, gap, until), "127.0.0.1", args.port
        )
        made.append(connection)
    # Whoever started this ends it when there is nothing more to measure; what is known by then is told.
    over = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, over.set)
    everything = asyncio.gather(*(connection.done for connection in made))
    ended = asyncio.ensure_future(over.wait())
    await asyncio.wait((everything, ended), return_when=asyncio.FIRST_COMPLETED)
    ended.cancel()
    seconds = time.perf_counter() - started
    latencies = [each for connection in made for each in connection.latencies]
    missing = sum(connection.missing for connection in made)
    emit("http look-ups", len(latencies), seconds, vars(args), latency=spread(latencies or [0.0]), missing=missing)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--path", required=True, help="what stands before the key")
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--rate", type=float, default=0.0, help="look-ups a second over all connections; 0: no limit")
    parser.add_argument("--seconds", type=float, default=10.0)
    asyncio.run(load(parser.parse_args()))


if __name__ == "__main__":
    main()
