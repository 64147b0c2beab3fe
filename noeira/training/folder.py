"""The folder of a training: its last checkpoint, with where it stands, its best one, and its logs.

`last.json` says where training stood when `last.safetensors` was written. Two files cannot be
replaced at once: so it has what belongs to the new checkpoint beside what belongs to the old one,
each under the digest of its file, before the new one takes its place. At any moment, the checkpoint
that is there has its entry.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from noeira.disk import flush_folder, replacing_for_good
from noeira.errors import CheckpointError, OptionError
from noeira.runtime.program import Program
from noeira.training.history import History, history_of

LAST, BEST, STANDS = "last.safetensors", "best.safetensors", "last.json"
CSV, JSONL, PICTURE, EVENTS = "metrics.csv", "metrics.jsonl", "loss.png", "tensorboard"
# What a folder that holds a training has, or may have.
FILES = (LAST, BEST, STANDS, CSV, JSONL, PICTURE, EVENTS)


class Folder:
    """Reads and writes the checkpoints of a training."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stands: tuple[str, dict[str, Any]] | None = None
        # The learning rate that `restore` put another one in the place of.
        self.replaced_rate: float | None = None

    def check_empty(self, how: str = "resume=True") -> None:
        """Raises OptionError, with how to go on, if a training is there already."""
        found = [name for name in FILES if (self.path / name).exists()]
        if found:
            raise OptionError(
                f"{self.path} holds a training already ({found[0]}): go on with it by {how}, "
                "or name another folder"
            )

    def make(self) -> None:
        """Make the folder. Raises OptionError if that cannot be."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or error
            raise OptionError(f"the folder {self.path} cannot be made: {reason}") from None

    def save_last(self, program: Program, history: History) -> None:
        """Write the checkpoint, and where training stands, together or not at all. Raises
        CheckpointError.
        """
        new = self.path / f"new-{LAST}"
        try:
            program.save(new)
            digest, standing = digest_of(new), history.to_json()
            entries = dict([self.stands] if self.stands else []) | {digest: standing}
            with replacing_for_good(self.path / STANDS) as file:
                file.write(json.dumps(entries).encode())
            os.replace(new, self.path / LAST)
            flush_folder(self.path)
            self.stands = digest, standing
        except OSError as error:
            where = self.path / LAST
            raise CheckpointError(f"{where} cannot be written: {error.strerror or error}") from None
        finally:
            new.unlink(missing_ok=True)

    def save_best(self, program: Program, history: History) -> None:
        """Write the best checkpoint, which the history then knows. Raises CheckpointError."""
        program.save(self.path / BEST)
        history.best_file = digest_of(self.path / BEST)

    def has_best(self, history: History) -> bool:
        """Whether the best checkpoint is that of the history: not if training was killed after a
        better one, and went on from before it.
        """
        path = self.path / BEST
        return path.exists() and digest_of(path) == history.best_file

    def restore(self, program: Program) -> History | None:
        """Let a program go on from the last checkpoint; gives where training stands, None if there
        is no checkpoint. Raises CheckpointError.
        """
        last, stands = self.path / LAST, self.path / STANDS
        if not last.exists():
            return None
        try:
            entries, digest = json.loads(stands.read_bytes()), digest_of(last)
        except OSError as error:
            reason = error.strerror or error
            raise CheckpointError(f"{error.filename} cannot be read: {reason}") from None
        except ValueError:
            raise CheckpointError(f"{stands} is damaged: it is no JSON") from None
        if not isinstance(entries, dict) or digest not in entries:
            raise CheckpointError(
                f"{stands} does not belong to {last}: one of them was replaced; "
                f"trainer.restore({str(last)!r}) takes the checkpoint alone"
            )
        history = history_of(entries[digest], str(stands))
        rate = program.lr
        program.restore(last)
        self.replaced_rate = rate if rate != program.lr else None
        self.stands = digest, entries[digest]
        return history


def digest_of(path: Path) -> str:
    """What a file is told apart from others by. Raises OSError."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()[:32]
