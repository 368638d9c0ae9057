"""What is to be trained, and on what: from a string, a run folder, an architecture or a module to a network and data.

Names are read as `score` reads them. A recipe that was published for one network of a space adds that network's
options, where the space has them and nobody set them.
"""

import os
import re
from copy import deepcopy
from dataclasses import dataclass
from difflib import get_close_matches
from hashlib import sha256
from importlib import metadata
from inspect import signature
from pathlib import Path
from typing import Any

from torch import nn

from untrained._load import UserCodeError, fingerprint_user_code, names_file, parse_call
from untrained.data import SOURCES, Source
from untrained.engine.score import Subject, home_of, source_for, subject_of
from untrained.errors import UsageError
from untrained.identity import fingerprint_module
from untrained.probe.guard import random_state
from untrained.rng import seed_for
from untrained.runs.winner import open_space, read_winner
from untrained.spaces import Space, load_space
from untrained.strategies._run import for_a_file
from untrained.training.recipes import Recipe
from untrained.types import Arch


@dataclass(frozen=True)
class Chosen:
    """A network and its data, each with the name under which it can be found again."""

    what: str
    space: str
    subject: Subject
    data: str
    source: Source
    home: Path | None  # the run folder that it comes from
    seed: int = 0  # that of the run

    @property
    def arch(self) -> str:
        return str(self.subject.arch)

    def network(self, device: str, seed: int) -> nn.Module:
        """With weights that follow from the architecture and the seed, the same that it was judged with; a module
        keeps its own, and is copied."""
        arch = self.subject.arch
        with random_state(seed_for("weights", arch.space, arch, seed)):
            made = self.subject.build(self.source.task)
        return deepcopy(made).to(device) if arch.space == "module" else made.to(device)

    def fingerprint_code(self) -> str:
        """A fingerprint of what makes the network, where it is not ours: the user's files or module, or timm."""
        if self.subject.arch.space == "module":
            return fingerprint_module(self.subject.build(self.source.task))
        if self.subject.arch.space == "timm":
            return f"timm {metadata.version('timm')}"
        return fingerprint_user_code(self.space or self.subject.reference)

    def folder(self, recipe: str, code: str, samples: str) -> Path:
        """Where the training goes unless another folder is named: the run that it comes from, or a new one. Changed
        code and changed data of the user's own have another folder."""
        if self.home:
            return self.home
        parts = [f"{self.space} {self.arch}"]
        if code:
            parts.append(code)
        kind = self.data.partition(":")[0]
        if kind in SOURCES and SOURCES[kind].own:
            parts.append(samples)
        digest = sha256("\n".join(parts).encode()).hexdigest()[:8]
        words = ("train", parse_call(self.space)[0] if self.space else self.arch, digest, self.data, recipe)
        return Path("runs", for_a_file(*words))


def resolved(
    what: Any,
    space: str | Space,
    data: str | None,
    recipe: Recipe,
    input_shape: tuple[int, ...] | None,
    device: str,
    root: str | Path | None,
) -> Chosen:
    said, home, seed = str(what) if isinstance(what, str | Path | Arch) else type(what).__name__, run_of(what), 0
    if home:
        best = read_winner(home)
        what = best.arch
        space = open_space(best, home, space, f"untrained train {home}")
        data = data or best.data
        input_shape = input_shape or best.input_shape
        seed = best.seed
    if isinstance(what, Arch):
        space, what = (space if home else home_of(what, space)), str(what)
    own = not isinstance(what, str) or names_file(what)
    place = space if own else fitted(space, recipe)
    subject = named_subject(what, place, device)
    if data is None:
        raise UsageError("say what to train on: --data digits (in Python, data='digits')")
    source = source_for(subject, data, input_shape, None, root)
    return Chosen(said, "" if own else typed(space, load_space(place)), subject, data, source, home, seed)


def named_subject(what: Any, space: str | Space, device: str) -> Subject:
    """As `subject_of`, for a text that may also have been meant as the folder of a run.

    Raises:
        UsageError: For a word that is neither; it names the folders that are spelled alike.
    """
    try:
        return subject_of(what, space, device)
    except UsageError as error:
        is_word = isinstance(what, str) and re.fullmatch(r"[\w. +-]+", what) is not None
        if not is_word or isinstance(error, UserCodeError):
            raise
        runs = [*Path().glob("*/run.json"), *Path().glob("runs/*/run.json")]
        near = get_close_matches(what, [str(run.parent) for run in runs], n=2, cutoff=0.5)
        hint = "give runs/NAME, an architecture or ./my_net.py:make_net"
        if near:
            hint = f"did you mean {' or '.join(near)}?"
        place = load_space(space).name
        message = f"no folder of a run is called {what}, and {place} has no such architecture; {hint}"
        raise UsageError(message) from error


def run_of(what: Any) -> Path | None:
    """The folder that `what` names, if it names one."""
    is_folder = isinstance(what, str | Path) and os.path.isdir(what)  # a Path would raise on a long architecture
    return Path(what) if is_folder else None


def fitted(space: str | Space, recipe: Recipe) -> Space:
    """The space with the options of the recipe's network, as far as it has them and they are not set."""
    home = load_space(space)
    free = set(signature(home.network).parameters) - set(dict(home.options))
    more = {name: value for name, value in recipe.network if name in free}
    return home.with_options(**more) if more else home


def typed(space: str | Space, home: Space) -> str:
    """What to type for `home`, which is `space` with more options."""
    _, bracket, options = home.name.partition("(")
    return f"{parse_call(space if isinstance(space, str) else space.name)[0]}{bracket}{options}"
