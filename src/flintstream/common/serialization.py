"""PyFlink's path of Encoder."""

from __future__ import annotations

from flintstream.connectors.files_config import Encoder

__all__ = [
    "Encoder",
]
