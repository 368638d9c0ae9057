"""What a user wants to train, and on what data.

The network may be given as a string, a run folder, an architecture or a module; names are parsed as
`score` parses them. A recipe that was published for one network of a space adds the options of that
network, if the space has them and the user has not set them.
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

from untrained.data import SOURCES, DataSource
from untrained.errors import UsageError
from untrained.identity import fingerprint_module
from untrained.names import UserCodeError, fingerprint_user_code, is_reference, parse_call
from untrained.probe.guard import random_state
from untrained.runs.folder import make_file_name
from untrained.runs.winner import open_space, read_winner
from untrained.seeds import derive_seed
from untrained.spaces import Space, load_space
from untrained.training.recipes import Recipe
from untrained.types import Arch
from untrained.workflows.subject import Subject, find_space_of, load_source_for, load_subject


@dataclass(frozen=True)
class TrainingSubject:
    """A network and its data.

    Attributes:
        what: The network as the user named it, or the class name of a module.
        space: What to type for its space; empty for a user's own network.
        subject: The architecture, and how to build it.
        data: The data as the user named it.
        source: The data.
        run_folder: The run folder whose winner is trained; None for any other network.
        seed: The seed of that run.
    """

    what: str
    space: str
    subject: Subject
    data: str
    source: DataSource
    run_folder: Path | None
    seed: int = 0

    @property
    def arch(self) -> str:
        """The architecture as text."""
        return str(self.subject.arch)

    def build_network(self, device: str, seed: int) -> nn.Module:
        """Build the network with the weights that it is scored with.

        They depend on the architecture and the seed. A module keeps its weights and is copied.
        """
        arch = self.subject.arch
        with random_state(derive_seed("weights", arch.space, arch, seed)):
            network = self.subject.build(self.source.task)
        if arch.space == "module":
            network = deepcopy(network)
        return network.to(device)

    def fingerprint_code(self) -> str:
        """Fingerprint what makes the network: the user's files or module, or the version of timm.

        It is empty for a network of a registered space.
        """
        if self.subject.arch.space == "module":
            return fingerprint_module(self.subject.build(self.source.task))
        if self.subject.arch.space == "timm":
            return f"timm {metadata.version('timm')}"
        return fingerprint_user_code(self.space or self.subject.factory)

    def make_default_folder(self, recipe: str, code: str, samples: str) -> Path:
        """Return the folder for a user that names none: the run folder, or one below `runs`.

        Args:
            recipe: Name of the recipe.
            code: Fingerprint of the user's code. Changed code has another folder.
            samples: Fingerprint of the samples. Changed data of the user have another folder.
        """
        if self.run_folder:
            return self.run_folder
        parts = [f"{self.space} {self.arch}"]
        if code:
            parts.append(code)
        source_name = self.data.partition(":")[0]
        if source_name in SOURCES and SOURCES[source_name].belongs_to_user:
            parts.append(samples)
        digest = sha256("\n".join(parts).encode()).hexdigest()[:8]
        network_name = self.arch
        if self.space:
            network_name, _ = parse_call(self.space)
        return Path("runs", make_file_name("train", network_name, digest, self.data, recipe))


def resolve_subject(
    what: Any,
    space: str | Space,
    data: str | None,
    recipe: Recipe,
    input_shape: tuple[int, ...] | None,
    device: str,
    data_root: str | Path | None,
) -> TrainingSubject:
    """Find the network and the data that a user means.

    For a run folder the network is its winner, and space, data and input shape are those of the run
    unless others are given.

    Raises:
        UsageError: The network or the data are unknown, or no data are given.
    """
    name = type(what).__name__
    if isinstance(what, str | Path | Arch):
        name = str(what)
    run_folder = find_run_folder(what)
    seed = 0
    if run_folder:
        winner = read_winner(run_folder)
        what = winner.arch
        space = open_space(winner, run_folder, space, f"untrained train {run_folder}")
        data = data or winner.data
        input_shape = input_shape or winner.input_shape
        seed = winner.seed
    if isinstance(what, Arch):
        if not run_folder:
            space = find_space_of(what, space)
        what = str(what)
    is_own_network = not isinstance(what, str) or is_reference(what)
    space_text = ""
    if not is_own_network:
        space_with_options = add_recipe_options(space, recipe)
        space_text = format_space(space, space_with_options)
        space = space_with_options
    subject = parse_subject(what, space, device)
    if data is None:
        raise UsageError("name the data to train on: --data digits (in Python, data='digits')")
    source = load_source_for(subject, data, input_shape, None, data_root)
    return TrainingSubject(name, space_text, subject, data, source, run_folder, seed)


def parse_subject(what: Any, space: str | Space, device: str) -> Subject:
    """Parse a network as `load_subject` does, for a text that may also be a mistyped run folder.

    Raises:
        UsageError: The text names neither a network nor a run folder; it lists similar folders.
    """
    try:
        return load_subject(what, space, device)
    except UsageError as error:
        is_word = isinstance(what, str) and re.fullmatch(r"[\w. +-]+", what) is not None
        if not is_word or isinstance(error, UserCodeError):
            raise
        run_files = [*Path().glob("*/run.json"), *Path().glob("runs/*/run.json")]
        run_folders = [str(file.parent) for file in run_files]
        similar = get_close_matches(what, run_folders, n=2, cutoff=0.5)
        hint = "give runs/NAME, an architecture or ./my_net.py:make_net"
        if similar:
            hint = f"did you mean {' or '.join(similar)}?"
        space_name = load_space(space).name
        message = (
            f"no run folder is called {what}, and {space_name} has no such architecture; {hint}"
        )
        raise UsageError(message) from error


def find_run_folder(what: Any) -> Path | None:
    """Return the folder that `what` names; None if it is not a folder."""
    # os.path, because Path.is_dir raises an error for an architecture that is too long for a path.
    if isinstance(what, str | Path) and os.path.isdir(what):
        return Path(what)
    return None


def add_recipe_options(space: str | Space, recipe: Recipe) -> Space:
    """Return the space with the options of the network that the recipe was published for.

    Options that the space does not have, or that the user has set, are left out.
    """
    loaded = load_space(space)
    available = set(signature(loaded.network).parameters) - set(dict(loaded.options))
    options = {}
    for name, value in recipe.space_options:
        if name in available:
            options[name] = value
    if not options:
        return loaded
    return loaded.with_options(**options)


def format_space(space: str | Space, space_with_options: Space) -> str:
    """Return what to type for a space to which options were added."""
    text = space if isinstance(space, str) else space.name
    base, _ = parse_call(text)
    _, bracket, options = space_with_options.name.partition("(")
    return f"{base}{bracket}{options}"
