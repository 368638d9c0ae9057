"""Resolve the arguments of `train` to a network and its data.

The network can be a string, a run folder, an architecture or a module. Strings are parsed as in
`score`. A recipe that was published for one network of a space adds the options of that network, if
the space has them and the user has not set them.
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

from torch import nn

from untrained.data import DataSource
from untrained.data.registry import belongs_to_user, name_data_path
from untrained.data.samples import DATASET_NAME, is_samples
from untrained.errors import UsageError
from untrained.identity import fingerprint_module
from untrained.names import UserCodeError, fingerprint_user_code, is_reference, parse_call
from untrained.probe.guard import random_state
from untrained.runs.folder import make_folder_name
from untrained.runs.winner import choose_trusted_space, read_winner
from untrained.seeds import derive_seed
from untrained.spaces import Space, fingerprint_space, load_space
from untrained.training.recipes import Recipe
from untrained.types import Arch
from untrained.workflows.network_spec import (
    KNOWN_NAMES,
    NetworkSpec,
    find_space_of,
    is_ctr_design,
    load_network_spec,
    load_source_for,
    load_training_samples,
    make_ctr_design_arch,
    replace_known_name,
)


@dataclass(frozen=True)
class TrainingSetup:
    """The network and the data of a training.

    Attributes:
        name: The network as the user typed it, or the class name of a module.
        space: What to type for its space; empty for a network of the user.
        spec: The network as `load_network_spec` returns it.
        data: The data as the user typed them; `DATASET_NAME` for objects in Python.
        source: The data.
        run_folder: The run folder whose winner is trained; None for any other network.
        seed: The seed of that run.
    """

    name: str
    space: str
    spec: NetworkSpec
    data: str
    source: DataSource
    run_folder: Path | None
    seed: int = 0

    @property
    def arch(self) -> str:
        """The architecture as text."""
        return str(self.spec.arch)

    def build_network(self, device: str, seed: int) -> nn.Module:
        """Build the network with the weights that it is scored with.

        They depend on the architecture and the seed. A module keeps its weights and is copied.
        """
        arch = self.spec.arch
        with random_state(derive_seed("weights", arch.space, arch, seed)):
            network = self.spec.build(self.source.task)
        if arch.space == "module":
            network = deepcopy(network)
        return network.to(device)

    def fingerprint_code(self) -> str:
        """Return a fingerprint of what defines the network.

        This is the user's files or module, the version of timm, or that of a registered space,
        which is empty if it is 1. The fingerprint of a hand-designed network for tables is empty.
        """
        if self.spec.arch.space == "module":
            return fingerprint_module(self.spec.build(self.source.task))
        if self.spec.arch.space == "timm":
            return f"timm {metadata.version('timm')}"
        if is_ctr_design(self.spec.arch):
            return ""
        if self.spec.space is not None and self.spec.space.is_builtin:
            return fingerprint_space(self.spec.space)
        return fingerprint_user_code(self.space or self.spec.factory)

    def choose_default_folder(self, recipe: str, code: str, samples: str) -> Path:
        """Return the default folder of the training: the run folder, or a folder below `runs`.

        Args:
            recipe: Name of the recipe.
            code: Fingerprint of the user's code. If the code changes, so does the folder.
            samples: Fingerprint of the samples. If the user's data change, so does the folder.
        """
        if self.run_folder:
            return self.run_folder
        identity = [f"{self.space} {self.arch}"]
        if code:
            identity.append(code)
        if belongs_to_user(self.data):
            identity.append(samples)
        digest = sha256("\n".join(identity).encode()).hexdigest()[:8]
        network_name = self.arch
        if self.space:
            network_name, _ = parse_call(self.space)
        return Path("runs", make_folder_name("train", network_name, digest, self.data, recipe))


def prepare_training(
    network: object,
    space: str | Space,
    data: object,
    recipe: Recipe,
    input_shape: tuple[int, ...] | None,
    device: str,
    data_root: str | Path | None,
) -> TrainingSetup:
    """Find the network and the data to train on.

    For a run folder, the network is its winner. Space, data and input shape are those of the run
    unless the user names others. The parameters are those of `train`.

    Raises:
        UsageError: The network or the data are unknown, or no data are named.
    """
    name = type(network).__name__
    if isinstance(network, str | Path | Arch):
        name = str(network)
    run_folder = find_run_folder(network)
    if run_folder is None:
        network = replace_known_name(network)
    seed = 0
    if run_folder:
        winner = read_winner(run_folder)
        if winner.winning_design:
            network = make_ctr_design_arch(winner.winning_design)
        else:
            network = winner.arch
            command = f"untrained train {run_folder}"
            space = choose_trusted_space(winner, run_folder, space, command)
        if data is None:
            data = winner.data
            input_shape = input_shape or winner.input_shape
        elif isinstance(data, str | Path):
            input_shape = input_shape or winner.input_shape
        seed = winner.seed
    if isinstance(network, Arch):
        if not run_folder and not is_ctr_design(network):
            space = find_space_of(network, space)
        network = str(network)
    has_space = isinstance(network, str) and not is_reference(network)
    space_text = ""
    if has_space and not is_ctr_design(network):
        space_with_options = add_recipe_options(space, recipe)
        space_text = format_space(space, space_with_options)
        space = space_with_options
    spec = parse_network(network, space, device)
    if data is None:
        raise UsageError("name the data to train on: --data digits (in Python, data='digits')")
    data_name, source = load_training_data(spec, data, input_shape, data_root)
    return TrainingSetup(name, space_text, spec, data_name, source, run_folder, seed)


def load_training_data(
    spec: NetworkSpec,
    data: object,
    input_shape: tuple[int, ...] | None,
    data_root: str | Path | None,
) -> tuple[str, DataSource]:
    """Load the data to train on, and return them with their name."""
    if isinstance(data, DataSource):
        return data.task.dataset, data
    if is_samples(data):
        return DATASET_NAME, load_training_samples(spec, data, input_shape)
    if data == DATASET_NAME:
        raise UsageError(
            "this run saw data that exist only in Python; give them again, such as "
            "data=(inputs, targets)"
        )
    if isinstance(data, Path):
        data = name_data_path(data)
    source = load_source_for(spec, data, input_shape, None, data_root)
    return str(data), source


def parse_network(network: object, space: str | Space, device: str) -> NetworkSpec:
    """Parse a network as `load_network_spec` does, but suggest run folders for an unknown name.

    Raises:
        UsageError: The text names neither a network nor a run folder. The message lists run folders
            with similar names.
    """
    try:
        return load_network_spec(network, space, device)
    except UsageError as error:
        if not isinstance(network, str) or isinstance(error, UserCodeError):
            raise
        may_be_folder = re.fullmatch(r"[\w. +-]+", network) is not None
        if not may_be_folder:
            raise
        run_files = [*Path().glob("*/run.json"), *Path().glob("runs/*/run.json")]
        run_folders = [str(file.parent) for file in run_files]
        similar_names = get_close_matches(network, run_folders, n=2, cutoff=0.5)
        similar_names += get_close_matches(network, KNOWN_NAMES, n=2, cutoff=0.7)
        hint = "give runs/NAME, an architecture, ./my_net.py:make_net or a name such as resnet18"
        if similar_names:
            hint = f"did you mean {' or '.join(similar_names)}?"
        space_name = load_space(space).name
        message = (
            f"no run folder is called {network}, and {space_name} has no such architecture; {hint}"
        )
        raise UsageError(message) from error


def find_run_folder(network: object) -> Path | None:
    """Return the folder if the user named a folder as the network; else None."""
    # os.path is used because Path.is_dir raises an error for a text that is too long for a path.
    if isinstance(network, str | Path) and os.path.isdir(network):
        return Path(network)
    return None


def add_recipe_options(space: str | Space, recipe: Recipe) -> Space:
    """Return the space with the options of the network that the recipe was published for.

    Options that the space does not have, or that the user has set, are left out.
    """
    base_space = load_space(space)
    all_options = set(signature(base_space.network).parameters)
    unset_options = all_options - set(dict(base_space.options))
    options = {}
    for name, value in recipe.space_options:
        if name in unset_options:
            options[name] = value
    if not options:
        return base_space
    return base_space.with_options(**options)


def format_space(space: str | Space, space_with_options: Space) -> str:
    """Return what to type for a space after options were added to it.

    Args:
        space: The space as the user named it.
        space_with_options: The space with the options.
    """
    text = space if isinstance(space, str) else space.name
    base, _ = parse_call(text)
    _, bracket, options = space_with_options.name.partition("(")
    return f"{base}{bracket}{options}"
