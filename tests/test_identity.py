"""Everything that determines a value is in its key: a change of any dependency leads to a new measurement."""

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partialmethod
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
import torch

import untrained
from untrained import user_code
from untrained.config import ComputeConfig
from untrained.data import load_data
from untrained.errors import Interrupted, UsageError
from untrained.identity import fingerprint_tensors
from untrained.proxies import load_proxy
from untrained.runs.store import Store
from untrained.spaces import SPACES, fingerprint_space
from untrained.spaces.core.space import register_space
from untrained.training.result import AnotherTrainingError
from untrained.types import Arch, ScoreRequest, Task
from untrained.workflows.export import export
from untrained.workflows.score import score_networks
from untrained.workflows.score_architectures import score_architectures

NET = """
    from torch import nn
    from width import WIDTH

    def make():
        return nn.Sequential(nn.Flatten(), nn.Linear(36, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3))
"""
TABLE_NET = """
    from torch import nn
    from width import WIDTH

    def make():
        return nn.Sequential(nn.Linear(2, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    modules_before = set(sys.modules)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(user_code, "_trusted_in_this_process", set())
    write_net(tmp_path, NET, 4)
    write_images(tmp_path, seed=0)
    yield tmp_path
    # Modules of this project must not be imported by the next one, whose files have the same names.
    for name in set(sys.modules) - modules_before:
        folders = getattr(sys.modules[name], "__path__", [])
        file = getattr(sys.modules[name], "__file__", None)
        if any(str(path).startswith(str(tmp_path)) for path in [file, *folders]):
            del sys.modules[name]


def write_net(project: Path, source: str, width: int) -> None:
    (project / "net.py").write_text(dedent(source))
    (project / "width.py").write_text(f"WIDTH = {width}\n")


def write_images(project: Path, seed: int) -> None:
    """Write 60 images of three classes; size and modification time do not depend on the seed."""
    draws = np.random.default_rng(seed)
    images = draws.integers(0, 256, (60, 6, 6, 1), dtype=np.uint8)
    np.savez(project / "images.npz", x=images, y=np.arange(60) % 3)
    os.utime(project / "images.npz", ns=(10**18, 10**18))


def write_table(project: Path, sign: int) -> None:
    """Write 300 rows whose label follows the first column or its opposite, with equal size and modification time."""
    lines = ["click,a,b"]
    for row in range(300):
        value = row * 37 % 100
        click = int((value > 50) == (sign > 0))
        lines.append(f"{click},{value:02d},{row * 53 % 100:02d}")
    (project / "rows.csv").write_text("\n".join(lines) + "\n")
    os.utime(project / "rows.csv", ns=(10**18, 10**18))


def train_net(what: Any = "./net.py:make", data: str = "npz:images.npz", **options: Any) -> Any:
    options = {"input_shape": (1, 6, 6), "recipe": "quick(epochs=1)", **options}
    return untrained.train(what, data, **options)


# ------------------------------------------------------------------------------------------------------- trainings


def test_a_finished_training_is_returned_again(project: Path):
    first = train_net()
    second = train_net()
    assert (second.folder, second.made_on, second.accuracy) == (
        first.folder,
        first.made_on,
        first.accuracy,
    )
    assert len(list((project / "runs").iterdir())) == 1


@pytest.mark.parametrize("where", ["its own folder", "a named folder"])
@pytest.mark.parametrize("change", ["factory", "imported file", "data"])
def test_a_training_of_other_code_or_data_is_not_returned(project: Path, change: str, where: str):
    options = {} if where == "its own folder" else {"run": project / "run"}
    first = train_net(**options)
    if change == "factory":
        write_net(project, NET.replace("ReLU", "Tanh"), 4)
    elif change == "imported file":
        write_net(project, NET, 5)
    else:
        write_images(project, seed=1)
    if where == "a named folder":
        with pytest.raises(
            AnotherTrainingError, match=r"(earlier|changed) .*; for this one add --run"
        ):
            train_net(**options)
        return
    second = train_net(**options)
    assert second.folder != first.folder
    assert second.curve != first.curve


def test_a_killed_training_is_not_resumed_with_other_data(project: Path):
    def interrupt(moment: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="stopped by Ctrl-C"):
        train_net(run=project / "run", checkpoint_every=1, on_progress=interrupt)
    write_images(project, seed=1)
    with pytest.raises(AnotherTrainingError, match=r"other samples in npz:images\.npz"):
        train_net(run=project / "run")


def test_a_training_of_another_torch_is_not_returned(
    project: Path, monkeypatch: pytest.MonkeyPatch
):
    train_net(run=project / "run")
    monkeypatch.setattr(
        sys.modules["untrained.workflows.train"], "read_torch_version", lambda: "1.0.0+cpu"
    )
    with pytest.raises(AnotherTrainingError, match=r"torch .* \(now '1.0.0\+cpu'\)"):
        train_net(run=project / "run")


def test_a_training_of_a_module_with_other_layers_is_not_returned(project: Path):
    def make_net(width: int) -> torch.nn.Module:
        return torch.nn.Sequential(
            torch.nn.Flatten(), torch.nn.Linear(36, width), torch.nn.Linear(width, 3)
        )

    train_net(make_net(4), run=project / "run")
    with pytest.raises(AnotherTrainingError, match="an earlier version of Sequential"):
        train_net(make_net(5), run=project / "run")


def test_an_export_does_not_use_a_training_of_other_code(project: Path):
    """The weights would fit, because only the activation has changed."""
    trained = train_net(run=project / "run")
    write_net(project, NET.replace("ReLU", "Tanh"), 4)
    with pytest.raises(UsageError, match=r"\./net.py:make has changed since .*run was made"):
        export(project / "run", project / "out")
    # The user names the changed file.
    score_networks("./net.py:make", "params", input_shape=(1, 6, 6))
    with pytest.raises(UsageError, match=r"\./net.py:make has changed since .*run was made"):
        export(project / "run", project / "out")
    exported = export(
        "./net.py:make",
        project / "out",
        weights=project / "run" / "model.pt",
        input_shape=(1, 6, 6),
    )
    assert exported.config["accuracy"] is None
    write_net(project, NET, 4)
    assert export(project / "run", project / "out").config["accuracy"] == trained.accuracy


# ------------------------------------------------------------------------------------------------------------ data


def test_a_table_with_the_same_size_and_time_is_read_again(project: Path):
    task = Task("rows", (2,), 1, "bce")
    write_table(project, sign=1)
    before = load_data("csv:rows.csv?label=click", task).batch(64)
    state = (project / "rows.csv").stat()
    write_table(project, sign=-1)
    after = (project / "rows.csv").stat()
    assert (after.st_size, after.st_mtime_ns) == (state.st_size, state.st_mtime_ns)
    now = load_data("csv:rows.csv?label=click", task).batch(64)
    assert torch.equal(now.inputs, before.inputs)
    assert torch.equal(now.targets, 1 - before.targets)
    write_table(project, sign=1)
    assert torch.equal(
        load_data("csv:rows.csv?label=click", task).batch(64).targets, before.targets
    )


def test_an_archive_with_the_same_size_and_time_is_read_again(project: Path):
    task = Task("images", (1, 6, 6), 3)
    before = load_data("npz:images.npz", task).batch(8)
    write_images(project, seed=1)
    assert not torch.equal(load_data("npz:images.npz", task).batch(8).inputs, before.inputs)


# ---------------------------------------------------------------------------------------------------------- scores


def test_a_score_does_not_depend_on_how_a_path_is_typed(project: Path):
    (project / "elsewhere").mkdir()
    for name in ("net.py", "width.py"):
        (project / "elsewhere" / name).write_bytes((project / name).read_bytes())
    names = ["./net.py:make", "net.py:make", f"{project}/net.py:make", "elsewhere/net.py:make"]
    records = [score_networks(name, "synflow", input_shape=(1, 6, 6), seeds=2) for name in names]
    values = [[record.value for record in path_records] for path_records in records]
    assert values[0] == values[1] == values[2] == values[3]
    assert values[0][0] != values[0][1], "every seed has weights of its own"
    assert [str(path_records[0].arch) for path_records in records] == names, (
        "a record shows what was typed"
    )


SPACE = """
    from torch import nn
    import untrained
    from width import WIDTH

    @untrained.space(task=untrained.Task("noise", (3, 8, 8), 4))
    def mynet(choose, task):
        width = WIDTH * choose("width", (1, 2))
        return nn.Sequential(nn.Conv2d(3, width, 3), nn.ReLU(), nn.Flatten(), nn.Linear(width * 36, task.num_classes))
"""


def count_records(store: Path) -> int:
    with Store(store, read_only=True) as opened:
        return len(opened)


def score_space(project: Path, space: str, **options: Any) -> dict[str, float | None]:
    """Count the parameters of all networks of a space, with one store for all calls."""
    loaded_space = untrained.load_space(space)
    scores = score_architectures(space, list(loaded_space), [load_proxy("params")], load_data("noise", loaded_space.task), (0,),
                  ComputeConfig(workers=1, **options),
                  project / "scores.sqlite")  # fmt: skip
    return {str(record.arch): record.value for record in scores.records}


@pytest.mark.parametrize("reference", ["./mine.py:mynet", "package.mine:mynet"])
@pytest.mark.parametrize("change", ["file", "imported file"])
def test_networks_of_changed_code_are_measured_again(project: Path, reference: str, change: str):
    folder = project / "package" if reference.startswith("package") else project
    folder.mkdir(exist_ok=True)
    (folder / "mine.py").write_text(dedent(SPACE))
    before = score_space(project, reference)
    assert before == {"width=1": 4 * 28 + 4 * 36 * 4 + 4, "width=2": 8 * 28 + 8 * 36 * 4 + 4}
    assert score_space(project, reference) == before
    assert count_records(project / "scores.sqlite") == 2
    if change == "file":
        (folder / "mine.py").write_text(dedent(SPACE).replace("WIDTH * choose", "3 * choose"))
    else:
        (project / "width.py").write_text("WIDTH = 3\n")
    assert score_space(project, reference) == {
        "width=1": 3 * 28 + 3 * 36 * 4 + 4,
        "width=2": 6 * 28 + 6 * 36 * 4 + 4,
    }
    assert count_records(project / "scores.sqlite") == 4


SMALL_MLPS = "mlp(depths=(1,),widths=(3,5))"


@pytest.fixture
def increase_version(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function that increases the version of a space of the package."""

    def increase() -> None:
        newer = replace(SPACES["mlp"], version=SPACES["mlp"].version + 1)
        monkeypatch.setitem(SPACES._members, "mlp", newer)

    return increase


def test_networks_of_a_new_version_of_a_space_are_measured_again(
    project: Path, increase_version: Callable[[], None]
):
    store = project / "scores.sqlite"
    before = score_space(project, SMALL_MLPS)
    assert len(before) == count_records(store) == 8
    increase_version()
    for _ in range(2):
        assert score_space(project, SMALL_MLPS) == before
        assert count_records(store) == 16
    with Store(store, read_only=True) as opened:
        codes = [record.request.code for record in opened]
    # Version 1 is not in the key, as in stores of earlier releases.
    assert codes == [""] * 8 + ["version 2"] * 8
    assert fingerprint_space("mlp") == fingerprint_space(untrained.load_space(SMALL_MLPS))


def test_a_score_of_a_former_version_of_a_space_is_not_returned(
    project: Path, increase_version: Callable[[], None]
):
    def score_and_count() -> int:
        network = "depth=1,width1=16,activation=relu"
        untrained.score(network, proxies="params", space="mlp", store=project / "scores.sqlite")
        return count_records(project / "scores.sqlite")

    before = score_and_count()
    assert score_and_count() == before
    increase_version()
    assert score_and_count() == 2 * before


def test_a_training_of_a_former_version_of_a_space_is_not_returned(
    project: Path, increase_version: Callable[[], None]
):
    def train_mlp(**options: Any) -> Any:
        return train_net("depth=1,width1=16,activation=relu", space="mlp", **options)

    trained = train_mlp(run=project / "run")
    assert train_mlp(run=project / "run").was_finished
    assert export(project / "run", project / "out").config["accuracy"] == trained.accuracy
    default_folder = train_mlp().folder
    increase_version()
    with pytest.raises(AnotherTrainingError, match="an earlier version of mlp"):
        train_mlp(run=project / "run")
    assert train_mlp().folder != default_folder
    # The weights fit, but the test result is that of another network.
    assert export(project / "run", project / "out").config["accuracy"] is None


def test_a_search_measures_again_after_a_new_version_of_its_space(
    project: Path, increase_version: Callable[[], None]
):
    options: dict[str, Any] = {"data": "noise", "budget": 2, "run": "run", "workers": 1}
    first = untrained.search(SMALL_MLPS, "params", **options)
    increase_version()
    second = untrained.search(SMALL_MLPS, "params", **options)
    assert count_records(project / "run" / "records.sqlite") == 2 * len(first.records)
    assert {record.request.code for record in second.records} == {"version 2"}
    assert second.run.search_key != first.run.search_key


def test_a_space_is_registered_with_its_version(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(SPACES, "_members", dict(SPACES._members))

    @untrained.space
    def first(choose: Any, task: Task) -> torch.nn.Module:
        return torch.nn.Linear(1, choose("width", (1, 2)))

    @register_space(version=3)
    @untrained.space
    def third(choose: Any, task: Task) -> torch.nn.Module:
        return torch.nn.Linear(1, choose("width", (1, 2)))

    assert register_space(first).version == 1
    assert fingerprint_space("first") == ""
    assert fingerprint_space("third") == fingerprint_space(third) == "version 3"


def test_a_search_is_not_resumed_with_a_changed_module(project: Path):
    (project / "package").mkdir()
    (project / "package" / "mine.py").write_text(dedent(SPACE))
    options: dict[str, Any] = {"data": "noise", "budget": 2, "run": "run", "workers": 1}
    untrained.search("package.mine:mynet", "params", **options)
    untrained.search("package.mine:mynet", "params", **options)
    (project / "width.py").write_text("WIDTH = 3\n")
    with pytest.raises(
        UsageError, match=r"run holds another run, with an earlier version of package.mine"
    ):
        untrained.search("package.mine:mynet", "params", **options)


def test_a_space_defined_in_python_is_identified_by_its_source(
    project: Path, monkeypatch: pytest.MonkeyPatch
):
    # As in a notebook: modules of the working directory can be imported.
    monkeypatch.syspath_prepend(project)

    def define(width: int) -> Any:
        names: dict[str, Any] = {}
        exec(compile(dedent(SPACE).replace("WIDTH *", f"{width} *"), "<cell>", "exec"), names)
        return names["mynet"]

    fingerprints = [fingerprint_space(define(width)) for width in (3, 4, 3)]
    assert fingerprints[0] == fingerprints[2] != fingerprints[1]
    assert (
        fingerprint_space("nasbench201")
        == fingerprint_space(untrained.load_space("nasbench201(channels=4)"))
        == ""
    )


def test_a_score_by_another_torch_is_measured_again(project: Path, monkeypatch: pytest.MonkeyPatch):
    (project / "mine.py").write_text(dedent(SPACE))
    score_space(project, "./mine.py:mynet")
    monkeypatch.setattr(
        ScoreRequest, "__init__", partialmethod(ScoreRequest.__init__, torch="1.0.0+cpu")
    )
    score_space(project, "./mine.py:mynet")
    assert count_records(project / "scores.sqlite") == 4


def test_networks_measured_together_have_records_of_their_own(project: Path):
    """Networks that are measured one by one keep their former key."""
    (project / "mine.py").write_text(dedent(SPACE))
    for networks_per_batch in (1, 2, 2, 1):
        score_space(project, "./mine.py:mynet", networks_per_batch=networks_per_batch)
    with Store(project / "scores.sqlite", read_only=True) as store:
        assert [record.request.networks_per_batch for record in store] == [1, 1, 2, 2]
    # A time limit scores one network at a time.
    score_space(project, "./mine.py:mynet", networks_per_batch=2, time_limit="1m")
    assert count_records(project / "scores.sqlite") == 4


def test_a_key_has_the_full_version_of_torch():
    assert ScoreRequest(Arch("s", ()), "m@1", Task("", (), 0), 0).torch == torch.__version__


def test_factories_of_the_same_name_in_two_files_are_two_networks(project: Path):
    (project / "elsewhere").mkdir()
    (project / "elsewhere" / "net.py").write_text(dedent(NET).replace("ReLU", "Tanh"))
    (project / "elsewhere" / "width.py").write_text("WIDTH = 9\n")
    first, second = score_networks(
        ["./net.py:make", "elsewhere/net.py:make"], "params", input_shape=(1, 6, 6)
    )
    assert first.arch != second.arch
    assert (first.value, second.value) == (36 * 4 + 4 + 4 * 3 + 3, 36 * 9 + 9 + 9 * 3 + 3)


def test_an_expanded_tensor_of_one_element_has_the_fingerprint_of_its_value():
    expanded = torch.tensor(0.5).expand(1)
    assert expanded.stride() == (0,)
    assert fingerprint_tensors([expanded]) == fingerprint_tensors([torch.tensor([0.5])])
