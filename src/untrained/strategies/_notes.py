"""What a strategy works out itself, in the run folder: an answer that was written down is not worked out again.

Architectures are judged by evaluators, and the store remembers what these said. Some strategies work hard before they
can name an architecture at all: NASI takes hundreds of steps on a supernet, Zero-Cost-PT hundreds of scores. Each is a
line of `notes.jsonl`, written as soon as it is known. Whoever takes notes draws its random numbers whether or not an
answer is known, so that a search which was stopped goes on to the same end, to the last bit: JSON writes floats such
that they are read as they were. Knows nothing of what the answers mean.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from typing import Any

from untrained import __version__
from untrained.errors import UsageError
from untrained.readers.json_file import parse_json

FILE = "notes.jsonl"


@dataclass(frozen=True, slots=True)
class Note:
    """An answer as plain data, and how long it took to find."""

    answer: Any
    seconds: float


class Notes:
    """`notes.of(key, work)`: the answer that was written down, or else that of the work, done now. Without a folder
    nothing is written. `tell` hears how many steps are done, of how many, as long as there is something to do."""

    def __init__(self, tell: Callable[[int, int], None] | None = None) -> None:
        self._tell = tell or (lambda done, total: None)
        self._known: dict[str, Note] = {}
        self._path: Path | None = None
        self._whose = ""
        self._answers = 0  # architectures that are asked for
        self._begun = self._steps = self._done = self._due = 0
        self.before = 0.0  # seconds of what earlier sittings wrote down

    def keep(self, folder: Path, whose: object, answers: int | None) -> None:
        """From now on in this folder. What it holds of the same work is known; `whose` says what the work depends on.
        So many architectures are asked for at most."""
        self._path, self._answers = folder / FILE, answers or 0
        self._whose = sha256(f"{__version__} {whose}".encode()).hexdigest()[:16]
        self._known = dict(_read(self._path, self._whose))
        self.before = self.seconds

    @property
    def seconds(self) -> float:
        """What all answers took, those of earlier sittings too."""
        return sum(note.seconds for note in self._known.values())

    def begin(self, steps: int) -> None:
        """The way to the next architecture begins; it takes so many answers."""
        self._begun, self._steps, self._due = self._begun + 1, steps, self._done + steps

    def of(self, key: str, work: Callable[[], Any]) -> Any:
        """The answer as plain data: what JSON makes of it."""
        if key not in self._known:
            self._progress()
            since = perf_counter()
            answer = json.loads(json.dumps(work()))
            self._write(key, Note(answer, perf_counter() - since))
            self._done += 1
            self._progress()
        else:
            self._done += 1  # not told: it would look like work of no time, and so would the time that is left
        return self._known[key].answer

    def _progress(self) -> None:
        self._tell(self._done, self._due + self._steps * max(0, self._answers - self._begun))

    def _write(self, key: str, note: Note) -> None:
        """The line break comes first, so that a line which was torn by a kill stays alone."""
        self._known[key] = note
        if self._path is None:
            return
        line = {"of": self._whose, "key": key, "seconds": note.seconds, "answer": note.answer}
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(f"\n{json.dumps(line)}")
        except OSError as error:
            raise UsageError(
                f"{self._path} cannot be written: {error}; make room, and the same command goes on"
            ) from error


def _read(path: Path, whose: str) -> Iterator[tuple[str, Note]]:
    """Keys and notes of this work; a line that cannot be read is passed over, and will be worked out again."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error}; choose another --run folder") from error
    for line in lines:
        try:
            said = parse_json(line)
            if said["of"] == whose:
                yield said["key"], Note(said["answer"], said["seconds"])
        except (ValueError, KeyError, TypeError):
            continue
