"""Operator identities: what state hangs on. A given uid is kept; others are derived from place and kind, stably."""

from __future__ import annotations

from collections.abc import Sequence

from flintstream.errors import DuplicateUidError, describe
from flintstream.graph.nodes import Node


def assign_uids(nodes: Sequence[Node]) -> dict[int, str]:
    """Return a uid for every node; two nodes with one uid are refused."""
    given: dict[str, Node] = {}
    for node in nodes:
        if node.uid is None:
            continue
        other = given.get(node.uid)
        if other is not None:
            what = f"two operators have uid {node.uid!r}"
            raise DuplicateUidError(
                describe(what, f"{other.location} and {node.location}", "give one another uid"),
                uid=node.uid,
                location=node.location,
            )
        given[node.uid] = node
    uids: dict[int, str] = {}
    seen: dict[str, int] = {}
    for node in nodes:
        stem = node.name.lower().replace(" ", "-").replace("/", "-")
        seen[stem] = seen.get(stem, 0) + 1
        derived = f"{stem}-{seen[stem]}"
        while derived in given:
            derived += "-auto"
        uids[node.id] = node.uid or derived
    return uids
