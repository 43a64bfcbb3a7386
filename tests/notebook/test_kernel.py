"""A job in a real notebook's kernel: what a front end is sent, message by message."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ipykernel")
manager = pytest.importorskip("jupyter_client.manager")
# Jupyter's own packages warn of each other.
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(120)]

PATIENCE = 60.0
CELL = """
from flintstream import CollectSink, DataGeneratorSource, StreamExecutionEnvironment, sequence

env = StreamExecutionEnvironment.get_execution_environment(runtime="local").set_parallelism(1)
numbers = env.from_source(DataGeneratorSource({"n": sequence()}, count=30, rate=20, splits=1))
numbers.map(lambda row: row.n).name("take n").sink_to(CollectSink())
job = env.execute_async("in a notebook")
job
"""
GRAPH = "job.graph()"
WAIT = """
import threading

job.get_job_execution_result().result()
for thread in threading.enumerate():
    if thread.name == "flintstream-notebook":
        thread.join()
"""


class Notebook:
    """Runs cells, and returns what a front end is told meanwhile."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def run(self, cell: str) -> list[tuple[str, dict[str, Any]]]:
        asked = self._client.execute(cell)
        heard: list[tuple[str, dict[str, Any]]] = []
        while True:
            try:
                message = self._client.get_iopub_msg(timeout=PATIENCE)
            except queue.Empty:
                pytest.fail(f"the kernel went silent after {heard}")
            kind, content = message["msg_type"], message["content"]
            assert kind != "error", content
            heard.append((kind, content))
            is_idle = kind == "status" and content["execution_state"] == "idle"
            if is_idle and message["parent_header"].get("msg_id") == asked:
                return heard


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    for name in ("HOME", "IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    kernel, client = manager.start_new_kernel(kernel_name="python3", cwd=str(tmp_path))
    try:
        yield Notebook(client)
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)


@pytest.mark.row(149)
def test_a_job_shows_its_graph_and_live_numbers_in_its_cell(notebook):
    heard = notebook.run(CELL)
    (shown,) = [content for kind, content in heard if kind == "display_data"]
    place = shown["transient"]["display_id"]
    assert "<strong>in a notebook</strong>" in shown["data"]["text/html"] and ">take n<" in shown["data"]["text/html"]
    picture = next(content for kind, content in notebook.run(GRAPH) if kind == "execute_result")
    assert picture["data"]["image/svg+xml"].startswith("<svg ")
    heard += notebook.run(WAIT)
    updates = [content for kind, content in heard if kind == "update_display_data"]
    assert {content["transient"]["display_id"] for content in updates} == {place}
    assert "FINISHED" in updates[-1]["data"]["text/html"] and "30 in · 30 out" in updates[-1]["data"]["text/html"]
