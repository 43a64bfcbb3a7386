"""A job that is driven epoch by epoch: the one that users have in `flintstream.testing`."""

from __future__ import annotations

from flintstream.testing.stepped import Declare, InProcess, Outputs, Runtime, ScriptedSource, SteppedJob

__all__ = ["Declare", "InProcess", "Outputs", "Runtime", "ScriptedSource", "SteppedJob"]
