"""A strict parser of Prometheus' text format, by the format's own rules, which fails where they are broken."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

GRAFANA = Path(__file__).parents[2] / "docs" / "grafana" / "flintstream.json"
NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"')
SUFFIXES = {"summary": ("", "_sum", "_count"), "histogram": ("_bucket", "_sum", "_count")}


def parsed(text: str) -> dict[str, dict[str, Any]]:
    """Return kind and series of each metric, or fail where the format is broken."""
    families: dict[str, dict[str, Any]] = {}
    current = ""
    seen: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
    for line in text.removesuffix("\n").split("\n") if text else ():
        if line.startswith("# HELP "):
            current = line.split(" ")[2]
            assert NAME.fullmatch(current)
            assert current not in families, f"{current} stands in two places"
            continue
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == current
            assert kind in ("counter", "gauge", "summary", "histogram")
            families[name] = {"kind": kind, "series": {}}
            continue
        found = re.fullmatch(r"([^{ ]+)(?:\{(.*)\})? (\S+)", line)
        assert found, line
        name, inside, value = found[1], found[2] or "", float(found[3].replace("Inf", "inf"))
        labels = tuple(LABEL.findall(inside))
        assert ",".join(f'{key}="{text}"' for key, text in labels) == inside, line
        kind = families[current]["kind"]
        assert name in {f"{current}{end}" for end in SUFFIXES.get(kind, ("",))}, line
        assert (name, labels) not in seen, f"{line} stands twice"
        seen.add((name, labels))
        families[current]["series"][name, labels] = value
    return families


def value(families: dict[str, dict[str, Any]], name: str, family: str | None = None, **labels: str) -> float:
    """Return the only series of a name that has some labels."""
    series = families[family or name]["series"]
    (found,) = [v for (n, pairs), v in series.items() if n == name and labels.items() <= dict(pairs).items()]
    return found


def asked_by_grafana() -> set[str]:
    """Return the metrics that the dashboard for Grafana shows."""
    panels = json.loads(GRAFANA.read_text())["panels"]
    targets = [target for panel in panels for target in panel.get("targets", ())]
    return {name for target in targets for name in re.findall(r"flintstream_\w+", target["expr"])}
