"""The user's file and line that declared something, for those who declare nodes."""

from __future__ import annotations

from flintstream.model.location import users_line

__all__ = ["users_line"]
