"""Files that are visible before their epoch is committed, and how they are taken back.

Before a task lets a file be seen it leaves a note in the hidden staging folder that names it. The commit removes the
notes of the files that the epoch has, and with the other notes their files: those of attempts that came to nothing. A
job that starts again removes the files of all notes behind its last commit. Separate from `files_staging`, where
nothing is seen before the commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from flintstream.connectors.files_staging import FileCommitter, StagedFile, make_durable, staging_folder, writing

NOTE = ".note"


def show_file(base: Path, file: StagedFile, leaves_note: bool) -> None:
    """Let a staged file be seen under its final name; with a note it can be taken back."""
    if leaves_note:
        note = base / f"{file.staged}{NOTE}"
        draft = note.with_name(f"{note.name}.draft")
        draft.write_text(file.final)
        make_durable(draft)
        draft.rename(note)
        make_durable(note.parent)
    final = base / file.final
    final.parent.mkdir(parents=True, exist_ok=True)
    (base / file.staged).rename(final)
    make_durable(final.parent)


def hide_file(base: Path, staged: str, final: str) -> None:
    """Take back a file that was shown; the note goes last, so that a crash in between is repeated."""
    (base / final).unlink(missing_ok=True)
    (base / f"{staged}{NOTE}").unlink(missing_ok=True)


class EarlyFileCommitter(FileCommitter):
    """Settles which of the files that were shown stay; without `takes_back` all do."""

    def __init__(self, base_path: str, takes_back: bool) -> None:
        super().__init__(base_path)
        self._takes_back = takes_back

    def commit(self, job: str, uid: str, epoch: int, committables: Sequence[Any]) -> None:
        kept = {file["staged"] for part in committables for file in (part if isinstance(part, list) else [part])}
        for number, staged, final in self._notes(job, uid):
            if number <= epoch and staged not in kept:
                self._hide(staged, final)
        self._clean(job, uid, epoch)

    def roll_back(self, job: str, uid: str, epoch: int) -> None:
        for number, staged, final in self._notes(job, uid):
            if number > epoch:
                self._hide(staged, final)

    def _hide(self, staged: str, final: str) -> None:
        with writing(self._base / final):
            hide_file(self._base, staged, final)

    def _notes(self, job: str, uid: str) -> Iterator[tuple[int, str, str]]:
        """Yield epoch, staged and final name of every file that was shown and is not settled."""
        folder = self._base / staging_folder(job, uid)
        for note in list(folder.glob(f"*{NOTE}")) if self._takes_back and folder.is_dir() else ():
            number, final = note.name.split("-")[0], note.read_text()
            # What is not in the sink's directory was not written by us, whatever a note says.
            if number.isdigit() and (self._base / final).resolve().is_relative_to(self._base.resolve()):
                yield int(number), str(note.relative_to(self._base)).removesuffix(NOTE), final
