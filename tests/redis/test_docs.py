"""The page about Redis tells the truth: its program runs against a real server."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tools.servers import Redis


def test_the_program_of_the_page_does_what_it_says(
    server: Redis, store: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store.mset({"ad:1": "shoes", "ad:2": "hats"})
    text = (ROOT / "docs/how-to/redis.md").read_text()
    code = "\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    code = code.replace("redis://localhost:6379/0", server.url).replace('"secret"', repr(server.password))
    code = code.replace("environment()", 'environment(runtime="local")')
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = vars(module)
    exec(compile(code, "redis.md", "exec"), names)
    for name in ("totals", "eager", "once"):
        names["seen"].sink_to(names[name]).uid(name)
    names["env"].execute()
    assert {key: store.hget(key, "n") for key in ("shoes:0", "hats:0", "shoes:2000")} == dict.fromkeys(
        ("shoes:0", "hats:0", "shoes:2000"), "1"
    )
    assert store.hgetall("totals") == {"shoes": "2", "hats": "1"}
    assert (store.get("last:shoes"), store.get("hats")) == ("2500", "900")
