"""A web page with live counts and no database: it asks the job's own state.

Visits are counted by page, and the counts are queryable. The little server below shows them: the browser asks it every
half second, and it looks them up in the job's checkpoint directory, as any other program could. Run it with `--serve`
and open the address; without, it looks at its own page twice and ends.

It prints:

    the page shows /cart, /home, /search
    its counts have grown while the job ran: True
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from flintstream import (
    DataGeneratorSource,
    KeyedProcessFunction,
    QueryableStateClient,
    RuntimeContext,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
    choice,
)
from flintstream.errors import UnknownStateError

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Visits</title>
<style>body { font: 1.2em sans-serif; margin: 2em } td { padding: .2em 1em } td + td { text-align: right }</style>
<h1>Visits</h1>
<table id="counts"></table>
<p>as of epoch <span id="epoch">…</span></p>
<script>
async function show() {
  const page = await (await fetch("counts")).json();
  const table = document.getElementById("counts");
  table.replaceChildren(...page.entries.map(entry => {
    const row = document.createElement("tr");
    for (const text of [entry.key, entry.value]) row.insertCell().textContent = text;
    return row;
  }));
  document.getElementById("epoch").textContent = page.epoch;
}
setInterval(show, 500);
show();
</script>
"""


class Count(KeyedProcessFunction):
    """Counts the visits of a page."""

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ValueStateDescriptor("count", int)
        descriptor.set_queryable("visits")
        self._count = runtime_context.get_state(descriptor)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        if count % 1000 == 0:
            yield f"{ctx.get_current_key()} has had {count} visits"


def server(state: QueryableStateClient) -> ThreadingHTTPServer:
    """Return a server of the page and of what it asks for."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/":
                self._answer("text/html; charset=utf-8", PAGE)
            elif self.path == "/counts":
                self._answer("application/json", json.dumps(state.scan("visits").as_dict()))
            else:
                self.send_error(404)

        def _answer(self, kind: str, text: str) -> None:
            data = text.encode()
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing of every request."""

    return ThreadingHTTPServer(("127.0.0.1", 0), Handler)


def counts(address: str) -> dict[str, int]:
    """Return what the page shows."""
    with urllib.request.urlopen(f"{address}/counts") as answer:
        return {entry["key"]: entry["value"] for entry in json.load(answer)["entries"]}


def wait_for(state: QueryableStateClient, least: int) -> None:
    """Return when that many visits are counted."""
    while True:
        try:
            if sum(entry.value for entry in state.scan("visits").entries) >= least:
                return
        except UnknownStateError:
            pass  # nothing is committed yet
        time.sleep(0.05)


def main() -> None:
    folder = tempfile.mkdtemp()
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2).set_checkpoint_dir(folder)
    visits = DataGeneratorSource({"page": choice(["/home", "/search", "/cart"])}, rate=300)
    env.from_source(visits).key_by("page").process(Count()).uid("count").print()
    job = env.execute_async("visits")

    state = QueryableStateClient(folder)
    web = server(state)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{web.server_port}"
    wait_for(state, 30)
    if "--serve" in sys.argv:
        input(f"The page is at {address}; press Enter to end. ")
    else:
        first = counts(address)
        print(f"the page shows {', '.join(first)}")
        wait_for(state, sum(first.values()) + 1)
        print(f"its counts have grown while the job ran: {sum(counts(address).values()) > sum(first.values())}")
    job.cancel().result()
    web.shutdown()
    web.server_close()


if __name__ == "__main__":
    main()
