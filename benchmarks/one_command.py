"""Compare the one command with hand-designed networks that get the same time.

    python benchmarks/one_command.py prepare --shared DATA --work runs/one-command
    python benchmarks/one_command.py plan --work runs/one-command --minutes 27
    python benchmarks/one_command.py run --work runs/one-command --minutes 9
    python benchmarks/one_command.py report --work runs/one-command --out docs/results

A **case** is a data set, a limit on parameters and a seed: six sets of about 2,000 pictures with
100,000 and 500,000 parameters, three tables, and the whole of CIFAR-10 with 1 and 5 million. In every case,
`untrained search --data ... --max-params ... --time 5m --export` delivers a model. Every reference (a
ResNet, MobileNetV2, ... scaled to the same limit; on tables logistic regression, DLRM, DeepFM, AutoInt
and gradient boosting) gets the same time on the same machine: on pictures a quarter of it for the
choice of one of three learning rates, the rest for training with the same recipe; on tables for
trainings with three rates and as many epochs as the time allows, of which validation selects one. All
are tested once, on samples that no network of the case was trained on or selected by.

The recipe of a reference on pictures is `photos` with pictures of full size in all steps: shifts, flips,
further augmentation, cutout, label smoothing, a cosine schedule and averaged weights. That is at least
what an engineer would take. If time is short, the command trains most steps on reduced pictures. A
reference "with small pictures", such as "ResNet-12 with small pictures", does so too, and shows how
much of the difference is the recipe.

A **variant** is the command with one part switched off, for the sets and limits of `--variant-sets`:

- ranking: candidates in random order instead of `consensus`
- contest: without a contest, the best of the ranking is trained for the whole time
- space: NAS-Bench-201, which has no known designs, instead of `convnet`
- recipe: the last training has the recipe `quick`, with fresh weights, instead of `photos`

## On a remote machine

`run` starts several trainings at once (`--jobs 8`), each on two cores of its own, and writes
`results.json` in the work folder after each of them. It starts nothing that would not end within
`--minutes`, so that it fits into calls of limited length; the next call continues where the last one
ended. It needs this repository, the packages of the extra `export` (without them the network is
trained in the same time and not exported), no network, and the folder `data` that `prepare` writes:

- `data/small`, about 25 MB: the picture sets and the tables
- `data/whole-1` and `data/whole-2`, about 50 MB each: the whole of CIFAR-10, compressed without loss

If only 64 MB may be copied at a time, copy the first folder, then run; copy the other two one after the
other before `run --gpu`, which trains on the whole of CIFAR-10 (`--whole-time 8m` per network, one at a
time). If the machine forgets the work folder between two calls, copy `results.json` back and forth;
nothing else is needed to continue. `report` also keeps it, as `docs/results/data/one-command.json`. A call of ten minutes is:

    python benchmarks/one_command.py run --work runs/one-command --minutes 9 --jobs 8

On 16 cores it runs eight trainings with `--time 5m`, and 24 with `--time 2m`. `plan` prints which
trainings the next `--minutes` contain. They are ordered so that complete cases come first.
"""

import argparse
import json
import lzma
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from importlib.util import find_spec
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from time import perf_counter, sleep

import numpy as np

PICTURES = ("cifar10", "fashion_mnist", "mnist", "digits", "cifar100", "tiny")
TABLES = ("criteo", "avazu", "frappe")
WHOLE = "cifar10_whole"
# A data set for dry runs, which `prepare` writes without other files.
TOY = "toy"
SEEDED_SETS = ("cifar10", "tiny")  # with three seeds
TRAIN_COUNT = 2000
TEST_COUNT = 1000
RATE_SHARE = 0.25  # of the time of a known design, for choosing its learning rate
SMALL_PICTURES = " with small pictures"
COMMAND = "command"
DESIGNS = ("ResNet-18", "MobileNetV2", "EfficientNet-like", "ResNet-12", "ConvNeXt-like")
TABLE_REFERENCES = ("logistic", "dlrm", "deepfm", "autoint", "gradient boosting")
VARIANTS = {
    "ranking": ["--proxy", "random"],
    "contest": ["--no-confirm", "--recipe", "photos(epochs=200)"],
    "space": ["--space", "nasbench201"],
    "recipe": ["--recipe", "quick(epochs=200)"],
}
# Starting, loading data and testing a reference take about this many seconds.
EXTRA_SECONDS = 30
CORES_PER_JOB = 2
PAGE = "one-command"
TITLE = "The one command against hand-designed networks"
START_MARK = "<!-- numbers of benchmarks/one_command.py -->"
END_MARK = "<!-- end of benchmarks/one_command.py -->"

Row = dict[str, object]


@dataclass(frozen=True)
class Task:
    """One network of one case: the command, a variant of it, or a reference.

    Attributes:
        data: Name of the data set.
        limit: The limit on parameters.
        seed: The seed.
        network: `COMMAND`, the name of a reference, or "without " and the name of a variant.
        time: Time for everything, such as "5m".
    """

    data: str
    limit: str
    seed: int
    network: str
    time: str

    @property
    def case(self) -> str:
        return f"{self.data}, {self.limit}, seed {self.seed}, {self.time}"

    @property
    def key(self) -> str:
        return f"{self.case}: {self.network}"

    @property
    def seconds(self) -> float:
        """Seconds until the task ends, with start and test."""
        from untrained.quantities import parse_duration

        return parse_duration(self.time) + EXTRA_SECONDS

    @property
    def is_reference(self) -> bool:
        return self.network != COMMAND and not self.network.startswith("without ")

    @property
    def is_competitor(self) -> bool:
        """Whether the command is compared with this network: a reference with its usual recipe."""
        return self.is_reference and not self.network.endswith(SMALL_PICTURES)


def main() -> None:
    options = parse_options()
    if options.action == "prepare":
        prepare(options)
    elif options.action == "plan":
        print_plan(options)
    elif options.action == "run":
        run_tasks(options)
    elif options.action == "task":
        task = Task(**json.loads(options.task))
        write_json(options.result, run_task(task, options.work, options.device))
    else:
        write_report(options.work, options.out)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=("prepare", "plan", "run", "report", "task"))
    parser.add_argument("--shared", type=Path, help="Folder of the original data sets.")
    parser.add_argument("--work", type=Path, required=True, help="Folder of data and results.")
    parser.add_argument("--sets", default=",".join(PICTURES + TABLES))
    parser.add_argument("--limits", default="500k,100k")
    parser.add_argument("--seeds", type=int, default=3, help="Seeds of cifar10 and tiny.")
    parser.add_argument("--time", default="5m")
    parser.add_argument("--references", default=",".join(DESIGNS[:3]))
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--variant-sets", default="cifar10,tiny,fashion_mnist")
    parser.add_argument("--jobs", type=int, default=8, help="0 for one, in this process.")
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--gpu", action="store_true", help="The whole of CIFAR-10, on a GPU.")
    parser.add_argument("--whole-time", default="8m")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--task", help="For child processes: a task as JSON.")
    parser.add_argument("--result", type=Path, help="For child processes: where to write.")
    return parser.parse_args()


def split_names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


# ------------------------------------------------------------------------------------- which tasks


def list_tasks(options: argparse.Namespace) -> list[Task]:
    """Return all tasks: seed 0 of every case first, then other seeds, then variants."""
    if options.gpu:
        tasks = []
        for limit in ("1M", "5M"):
            for network in (COMMAND, *split_names(options.references)[:2]):
                tasks.append(Task(WHOLE, limit, 0, network, options.whole_time))
        return tasks
    limits = split_names(options.limits)
    cases = []
    for seed in range(options.seeds):
        for limit in limits:
            for name in split_names(options.sets):
                is_seeded = seed == 0 or name in SEEDED_SETS
                # The networks for tables are far below these limits, so one limit is enough.
                is_repeated = name in TABLES and limit != limits[0]
                if is_seeded and not is_repeated:
                    cases.append((name, limit, seed))
    tasks = []
    for name, limit, seed in cases:
        references = TABLE_REFERENCES if name in TABLES else split_names(options.references)
        for network in (COMMAND, *references):
            tasks.append(Task(name, limit, seed, network, options.time))
    for variant in split_names(options.variants):
        for name in split_names(options.variant_sets):
            if name in split_names(options.sets):
                network = f"without {variant}"
                tasks.append(Task(name, limits[0], 0, network, options.time))
    return tasks


def select_tasks(
    tasks: Sequence[Task], jobs: int, seconds: float
) -> Iterator[tuple[float, float, Task]]:
    """Yield start and end of the tasks that fit into some time, in the order of their start."""
    free_at = [0.0] * max(1, jobs)
    for task in tasks:
        job = free_at.index(min(free_at))
        end = free_at[job] + task.seconds
        if end > seconds:
            continue
        yield free_at[job], end, task
        free_at[job] = end


def print_plan(options: argparse.Namespace) -> None:
    """Print which tasks the next minutes contain, and how long all of them take."""
    results = read_results(options.work)
    missing = [task for task in list_tasks(options) if task.key not in results]
    jobs = 1 if options.gpu else options.jobs
    selected = list(select_tasks(missing, jobs, 60 * options.minutes))
    for start, end, task in selected:
        print(f"{start / 60:6.1f} to {end / 60:5.1f} min  {task.key}")
    total = sum(task.seconds for task in missing) / max(1, jobs) / 60
    print(
        f"{len(selected)} of {len(missing)} tasks fit into {options.minutes:g} minutes with "
        f"{max(1, jobs)} jobs; all of them take about {total:.0f} minutes"
    )


# ------------------------------------------------------------------------------------ running tasks


def run_tasks(options: argparse.Namespace) -> None:
    """Run the tasks without a result, several at a time, and write every result when it comes."""
    options.work.mkdir(parents=True, exist_ok=True)
    deadline = perf_counter() + 60 * options.minutes
    results = read_results(options.work)
    waiting = [task for task in list_tasks(options) if task.key not in results]
    if options.gpu:
        options.device = "cuda"
    if options.jobs == 0:
        for task in waiting:
            if perf_counter() + task.seconds <= deadline:
                keep_result(options.work, task, run_task(task, options.work, options.device))
        return
    cores = sorted(os.sched_getaffinity(0))
    jobs = 1 if options.gpu else max(1, min(options.jobs, len(cores) // CORES_PER_JOB))
    running: dict[int, tuple[Task, subprocess.Popen[bytes], Path, float]] = {}
    while waiting or running:
        for job in range(jobs):
            if job in running:
                continue
            new_task = find_next_task(waiting, deadline)
            if new_task is None:
                continue
            waiting.remove(new_task)
            own_cores = cores
            if not options.gpu:
                own_cores = cores[CORES_PER_JOB * job : CORES_PER_JOB * (job + 1)]
            process, result = start_task(new_task, options, own_cores)
            running[job] = (new_task, process, result, perf_counter())
        if not running:
            break
        sleep(0.5)
        for job, (task, process, result, start) in list(running.items()):
            is_late = perf_counter() - start > 2 * task.seconds
            if is_late:
                process.kill()
            if process.poll() is None:
                continue
            del running[job]
            row: Row = {"error": f"exit code {process.returncode}; see {result}.log"}
            if result.is_file():
                row = json.loads(result.read_text())
            row["whole_seconds"] = round(perf_counter() - start, 1)
            keep_result(options.work, task, row)
    print(f"{len(waiting)} tasks are left", flush=True)


def find_next_task(waiting: Sequence[Task], deadline: float) -> Task | None:
    """Return the first task that ends before the deadline; None if there is none."""
    for task in waiting:
        if perf_counter() + task.seconds <= deadline:
            return task
    return None


def start_task(
    task: Task, options: argparse.Namespace, cores: Sequence[int]
) -> tuple["subprocess.Popen[bytes]", Path]:
    """Start a task in a process on some cores; return it and the file of its result."""
    folder = options.work / "tasks"
    folder.mkdir(exist_ok=True)
    result = folder / f"{make_folder_name(task)}.json"
    result.unlink(missing_ok=True)
    command = [sys.executable, __file__, "task", "--work", str(options.work)]
    command += ["--task", json.dumps(vars(task)), "--result", str(result)]
    command += ["--device", options.device]
    # One thread per core: more would wait for each other.
    environment = {**os.environ, "OMP_NUM_THREADS": str(len(cores))}
    with open(f"{result}.log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    os.sched_setaffinity(process.pid, cores)
    return process, result


def make_folder_name(task: Task) -> str:
    return "".join(char if char.isalnum() else "-" for char in task.key)


def read_results(work: Path) -> dict[str, Row]:
    """Return the results so far, by task. Those that failed are repeated."""
    path = work / "results.json"
    if not path.is_file():
        return {}
    rows: dict[str, Row] = json.loads(path.read_text())
    return {key: row for key, row in rows.items() if "error" not in row}


def keep_result(work: Path, task: Task, row: Row) -> None:
    """Add a result to the file."""
    from untrained.papers.commit import read_commit

    rows = read_results(work)
    rows[task.key] = {**vars(task), **row, "date": str(date.today()), "commit": read_commit()}
    write_json(work / "results.json", rows)
    print(f"{task.key}: {row}", flush=True)


def write_json(path: Path, content: object) -> None:
    from untrained.files import write_atomically

    write_atomically(path, json.dumps(content, indent=1) + "\n")


def run_task(task: Task, work: Path, device: str) -> Row:
    """Run a task in this process and return its result."""
    start = perf_counter()
    if task.data == WHOLE:
        unpack_whole(work)
    if not task.is_reference:
        row = run_command(task, work, device)
    elif task.network == "gradient boosting":
        row = run_gradient_boosting(task, work)
    elif task.data in TABLES:
        row = run_table_reference(task, work)
    else:
        row = run_design(task, work, device)
    row["seconds"] = round(perf_counter() - start, 1)
    row["cores"] = len(os.sched_getaffinity(0))
    return row


def get_data_names(task: Task, work: Path) -> tuple[str, str]:
    """Return what to type for the training and the test samples."""
    folder = (work / "data" / ("whole" if task.data == WHOLE else "small")).resolve()
    if task.data in TABLES:
        return f"csv:{folder / f'{task.data}.csv'}", f"csv:{folder / f'{task.data}-test.csv'}"
    return f"npz:{folder / f'{task.data}.npz'}", f"npz:{folder / f'{task.data}-test.npz'}"


def get_joined_name(task: Task, work: Path) -> str:
    """Return the name of the training samples together with the test samples."""
    from untrained.cli.options import add_label, add_test

    data, test = get_data_names(task, work)
    label = "label" if task.data in TABLES else None
    name = add_test(add_label(data, label), test)
    assert name is not None
    return name


# ------------------------------------------------------------------------------- the command itself


def run_command(task: Task, work: Path, device: str) -> Row:
    """Run the command as a user does, and read what it delivers."""
    folder = work / "cases" / make_folder_name(task)
    shutil.rmtree(folder, ignore_errors=True)
    run = folder / "run"
    data, test = get_data_names(task, work)
    words = ["search", "--data", data, "--test", test, "--max-params", task.limit]
    if task.data in TABLES:
        words += ["--label", "label"]
    words += ["--time", task.time, "--seed", str(task.seed), "--run", str(run)]
    words += ["--device", device, "--export", str(folder / "model")]
    if device == "cpu":
        words += ["--workers", str(min(CORES_PER_JOB, len(os.sched_getaffinity(0))))]
    if task.data == TOY:
        # Otherwise, a dry run would score 64 networks with eight proxies first.
        words += ["--proxy", "flops", "--budget", "6"]
    if task.network != COMMAND:
        words += VARIANTS[task.network.removeprefix("without ")]
    code = "from untrained.cli.app import main; main()"
    if not all(find_spec(name) for name in ("onnx", "onnxruntime", "onnxscript", "safetensors")):
        code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); "
        code += "from one_command import run_without_export; run_without_export()"
    start = perf_counter()
    subprocess.run([sys.executable, "-c", code, *words], check=True)
    row = describe_training(run)
    row["command_seconds"] = round(perf_counter() - start, 1)
    return {**row, **describe_choice(run)}


def run_without_export() -> None:
    """Run the command without writing the export, on a machine without the packages for it."""
    from untrained.cli.app import main as run_cli
    from untrained.workflows import winner_export

    def export_nothing(*arguments: object, **options: object) -> None:
        raise SystemExit(0)

    winner_export.check_winner_export = lambda *arguments: None
    winner_export.export_trained_winner = export_nothing  # type: ignore[assignment]
    run_cli()


def describe_training(folder: Path) -> Row:
    """Return the result of a training on the test samples, and facts about it."""
    from untrained.training.result import TrainingResult

    training = TrainingResult.read(folder)
    row: Row = {
        "accuracy": training.accuracy,
        "auc": training.auc,
        "log_loss": training.loss,
        "test_samples": training.samples["test"],
        "train_samples": training.samples["train"],
        "params": training.params,
        "epochs": len(training.curve),
        "rate": training.key.recipe["rate"],
        "arch": training.key.arch,
    }
    return row


def describe_choice(run: Path) -> Row:
    """Return how the winner was selected, and the best validation result that it competed with."""
    from untrained.reports.confirmation_result import Confirmation
    from untrained.reports.contest_result import Contest
    from untrained.runs.folder import RunFolder

    folder = RunFolder.read(run)
    contest = Contest.read(folder)
    if contest is not None:
        entry = contest.winning_entry
        others = []
        for other in contest.entries:
            is_finalist = len(other.rounds) == len(entry.rounds) and not other.error
            if is_finalist and other.accuracy is not None:
                others.append(other.accuracy)
        return {
            "selections": list(entry.selections),
            "val_accuracy": entry.accuracy,
            "best_val_accuracy": max(others),
            "tied": len(contest.tied),
            "is_tied": contest.winner_number in contest.tied,
            "contest_seconds": round(contest.seconds, 1),
            "contest_entries": sum(1 for other in contest.entries if other.rounds),
        }
    confirmation = Confirmation.read(folder)
    if confirmation is not None:
        losses = {}
        for reference in confirmation.entries:
            if reference.val_loss is not None and not reference.violation:
                losses[reference.name] = reference.val_loss
        winner = confirmation.winner_entry
        return {
            "selections": [confirmation.winning_design or "found"],
            "val_loss": None if winner is None else winner.val_loss,
            "best_val_loss": min(losses.values(), default=None),
        }
    return {}


# -------------------------------------------------------------------------- hand-designed networks


def run_design(task: Task, work: Path, device: str) -> Row:
    """Choose the learning rate of a known design, train it on all samples, and test it."""
    from untrained.config import ComputeConfig, Limits
    from untrained.data import load_data, set_input_size
    from untrained.quantities import parse_duration
    from untrained.reports.contest_result import ContestEntry
    from untrained.spaces import load_space
    from untrained.strategies.limits import ConstrainedSpace
    from untrained.training.adaptation import adapt_recipe
    from untrained.training.recipes import load_recipe
    from untrained.training.small_pictures import choose_small_share, estimate_relative_cost
    from untrained.workflows.contest import run_contest
    from untrained.workflows.contest_rounds import RATE_FACTORS
    from untrained.workflows.contest_state import get_weights_path
    from untrained.workflows.contest_training import ContestSettings
    from untrained.workflows.final_training import choose_max_epochs, estimate_epoch_seconds
    from untrained.workflows.train import train

    start = perf_counter()
    seconds = parse_duration(task.time)
    space = load_space("convnet")
    data = get_joined_name(task, work)
    source = load_data(data, space.task, None)
    if source.propose_side is not None:
        # As the command does it.
        source = load_data(data, set_input_size(space.task, source.propose_side()), None)
    limits = Limits.parse(max_params=task.limit)
    designs = ConstrainedSpace(space, limits, source.task).list_known_designs()
    name = task.network.removesuffix(SMALL_PICTURES)
    if name not in designs:
        return {"skipped": f"there is no {name} within the limit"}
    arch = designs[name]
    folder = work / "cases" / make_folder_name(task)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    recipe = adapt_recipe(load_recipe("photos"), source)
    settings = ContestSettings(
        space="convnet",
        data=data,
        source=source,
        recipe=recipe,
        seconds=RATE_SHARE * seconds,
        seed=task.seed,
        compute=ComputeConfig(device),
        folder=folder,
        search_key=task.network,
    )
    entries = []
    for number, factor in enumerate((1.0, *RATE_FACTORS), 1):
        rate = float(f"{factor * recipe.rate:.2g}")
        entries.append(ContestEntry(number, str(arch), (task.network,), rate))
    contest = run_contest(entries, {str(arch): arch}, settings)
    assert contest is not None
    remaining = seconds - (perf_counter() - start)
    samples = contest.train_samples + contest.val_samples
    if not task.is_competitor:
        recipe = recipe.with_options(small_share=choose_small_share(source.task, device))
    relative_cost = estimate_relative_cost(recipe.small_share)
    epochs = int(remaining / (relative_cost * estimate_epoch_seconds(contest)))
    epochs = max(1, min(epochs, choose_max_epochs(samples, recipe.batch)))
    final = recipe.with_options(
        epochs=epochs,
        warm_up=min(recipe.warm_up, epochs / 10),
        rate=contest.winning_entry.rate,
    )
    train(
        str(arch),
        data,
        final.label,
        space="convnet",
        seed=task.seed,
        device=device,
        refit=True,
        start=get_weights_path(folder, contest.winner_number),
        finish_in=remaining,
        input_shape=source.task.input_shape,
        run=folder / "training",
    )
    return describe_training(folder / "training")


def run_table_reference(task: Task, work: Path) -> Row:
    """Train a hand-designed network with several rates and lengths, and select by validation."""
    from untrained.quantities import parse_duration
    from untrained.reports.confirmation_result import list_learning_rates
    from untrained.training.recipes import load_recipe
    from untrained.workflows.network_spec import make_ctr_design_arch
    from untrained.workflows.train import train

    start = perf_counter()
    seconds = parse_duration(task.time)
    data = get_joined_name(task, work)
    folder = work / "cases" / make_folder_name(task)
    shutil.rmtree(folder, ignore_errors=True)
    best_loss = None
    best_folder = None
    for epochs in (5, 2, 10, 20):
        for rate in list_learning_rates(load_recipe("ctr")):
            remaining = seconds - (perf_counter() - start)
            if remaining <= 0:
                break
            recipe = load_recipe("ctr").with_options(epochs=epochs, rate=rate)
            own_folder = folder / f"{epochs}-{rate:g}"
            result = train(
                make_ctr_design_arch(task.network),
                data,
                recipe.label,
                seed=task.seed,
                finish_in=remaining,
                run=own_folder,
            )
            if best_loss is None or result.best["loss"] < best_loss:
                best_loss = result.best["loss"]
                best_folder = own_folder
    assert best_folder is not None
    row = describe_training(best_folder)
    row["val_loss"] = best_loss
    return row


def run_gradient_boosting(task: Task, work: Path) -> Row:
    """Train scikit-learn's gradient boosting with the columns that a data scientist would give it."""
    from untrained.data import load_data
    from untrained.spaces import load_space
    from untrained.training.boosting import train_boosting

    source = load_data(get_joined_name(task, work), load_space("nasrec_small").task, None)
    result = train_boosting(source)
    return {
        "auc": result.quality,
        "log_loss": result.loss,
        "val_loss": result.val_loss,
        "test_samples": len(source.parts["test"]),
        "selections": [result.description],
    }


# --------------------------------------------------------------------------------------- the data


def prepare(options: argparse.Namespace) -> None:
    """Write training and test samples of all data sets to the work folder."""
    small = options.work / "data" / "small"
    small.mkdir(parents=True, exist_ok=True)
    for name in split_names(options.sets):
        if name in TABLES:
            write_table(name, options.shared, small)
        else:
            write_pictures(name, options.shared, small)
    if options.shared is None or not (options.shared / "cifar10" / "train_1.med.xz").is_file():
        return
    for part, names in enumerate(
        (("train_1", "train_2", "train_3"), ("train_4", "train_5", "test"))
    ):
        folder = options.work / "data" / f"whole-{part + 1}"
        folder.mkdir(exist_ok=True)
        for name in names:
            shutil.copyfile(
                options.shared / "cifar10" / f"{name}.med.xz", folder / f"{name}.med.xz"
            )
    labels = options.work / "data" / "whole-1" / "labels.npz"
    shutil.copyfile(options.shared / "cifar10" / "labels.npz", labels)


def write_pictures(name: str, shared: Path | None, folder: Path) -> None:
    """Write the training and the test pictures of a data set as two npz files."""
    x, y, x_test, y_test = read_pictures(name, shared)
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(x))[:TRAIN_COUNT]
    test_rows = rng.permutation(len(x_test))[:TEST_COUNT]
    np.savez_compressed(folder / f"{name}-test.npz", x=x_test[test_rows], y=y_test[test_rows])
    np.savez_compressed(folder / f"{name}.npz", x=x[rows], y=y[rows])


def read_pictures(name: str, shared: Path | None) -> tuple[np.ndarray, ...]:
    """Return training pictures, labels, test pictures and labels."""
    if name == TOY:
        labels = np.arange(240) % 3
        noise = np.random.default_rng(0).integers(-30, 30, (240, 16, 16, 3))
        pictures = ((60 + 70 * labels)[:, None, None, None] + noise).astype(np.uint8)
        return (pictures[:180], labels[:180], pictures[180:], labels[180:])
    if name == "digits":
        from sklearn.datasets import load_digits

        digits = load_digits()
        pictures = (digits.images * 255 / 16).round().astype(np.uint8)
        rows = np.random.default_rng(1).permutation(len(pictures))
        test_rows = rows[:500]
        train_rows = rows[500:]
        return (
            pictures[train_rows],
            digits.target[train_rows],
            pictures[test_rows],
            digits.target[test_rows],
        )
    files = {
        "cifar10": "cifar10/subset_2000_1000.npz",
        "cifar100": "cifar100_partial/cifar100_first_images.npz",
        "fashion_mnist": "fashion_mnist/fashion_mnist_10k_2k.npz",
        "mnist": "mnist/mnist.npz",
        "tiny": "tiny_imagenet16/subset_2000_1000.npz",
    }
    assert shared is not None, "--shared names the folder of the original data sets"
    # Tiny-ImageNet publishes no labels of its test pictures.
    test = "val" if name == "tiny" else "test"
    with np.load(shared / files[name]) as arrays:
        return (arrays["x_train"], arrays["y_train"], arrays[f"x_{test}"], arrays[f"y_{test}"])


def write_table(name: str, shared: Path | None, folder: Path) -> None:
    """Write a tenth of the rows of a table as test rows, and the others as training rows."""
    import pandas as pd

    files = {
        "criteo": ("criteo_10k.csv.gz", "label"),
        "avazu": ("avazu_10k.csv.gz", "click"),
        "frappe": ("frappe_val_test.csv.gz", "label"),
    }
    assert shared is not None, "--shared names the folder of the original data sets"
    file_name, label = files[name]
    table = pd.read_csv(shared / "ctr" / file_name, dtype=str).rename(columns={label: "label"})
    # Every row of Avazu has a number of its own, which says nothing about others.
    table = table.drop(columns=[column for column in ("id", "split") if column in table])
    rows = np.random.default_rng(0).permutation(len(table))
    count = len(table) // 10
    table.iloc[rows[:count]].to_csv(folder / f"{name}-test.csv", index=False)
    table.iloc[rows[count:]].to_csv(folder / f"{name}.csv", index=False)


def unpack_whole(work: Path) -> None:
    """Write the whole of CIFAR-10 as two npz files, from the compressed ones."""
    folder = work / "data" / "whole"
    if (folder / f"{WHOLE}-test.npz").is_file():
        return
    folder.mkdir(exist_ok=True)
    first = work / "data" / "whole-1"
    second = work / "data" / "whole-2"
    with np.load(first / "labels.npz") as labels:
        y_train = labels["y_train"]
        y_test = labels["y_test"]
    batches = [read_compressed(first / f"train_{number}.med.xz", 32) for number in (1, 2, 3)]
    batches += [read_compressed(second / f"train_{number}.med.xz", 32) for number in (4, 5)]
    np.savez(folder / f"{WHOLE}.npz", x=np.concatenate(batches), y=y_train)
    # The test file is written last: if it exists, both are complete.
    np.savez(folder / f"{WHOLE}-test.npz", x=read_compressed(second / "test.med.xz", 32), y=y_test)


def read_compressed(path: Path, side: int) -> np.ndarray:
    """Read pictures (N, side, side, 3) that were compressed without loss.

    The planes are red minus green, green, and blue minus green, modulo 256. A pixel is the sum of
    its stored value and of a prediction from its left, upper and upper left neighbours.
    """
    with lzma.open(path) as file:
        stored = np.frombuffer(file.read(), np.uint8)
    stored = stored.reshape(3, -1, side, side).astype(np.int16)
    planes = np.zeros_like(stored)
    for row in range(side):
        for column in range(side):
            prediction: np.ndarray | int = 0
            if row == 0 and column > 0:
                prediction = planes[:, :, 0, column - 1]
            elif column == 0 and row > 0:
                prediction = planes[:, :, row - 1, 0]
            elif row > 0:
                left = planes[:, :, row, column - 1]
                upper = planes[:, :, row - 1, column]
                corner = planes[:, :, row - 1, column - 1]
                low = np.minimum(left, upper)
                high = np.maximum(left, upper)
                middle = np.where(corner <= low, high, left + upper - corner)
                prediction = np.where(corner >= high, low, middle)
            values = (stored[:, :, row, column] + prediction) & 255
            planes[:, :, row, column] = values
            # Differences of colours are signed.
            planes[0, :, row, column] = ((values[0] + 128) & 255) - 128
            planes[2, :, row, column] = ((values[2] + 128) & 255) - 128
    green = planes[1]
    pictures = np.stack([planes[0] + green, green, planes[2] + green], axis=-1)
    return (pictures & 255).astype(np.uint8)


# ------------------------------------------------------------------------------------- the report


@dataclass(frozen=True)
class Comparison:
    """The command against the best reference of one case, in points of accuracy or AUC.

    Attributes:
        case: The case.
        network: What the command delivered.
        ours: Its result.
        best: Name of the best reference on the test samples.
        reference: Its result.
        standard_error: Standard error of the difference, as if both were tested on other samples.
        is_table: Whether the result is an AUC.
        is_beaten: Whether the contest of the command had a network that was better by more than
            one standard error on validation.
    """

    case: str
    network: str
    ours: float
    best: str
    reference: float
    standard_error: float
    is_table: bool
    is_beaten: bool

    @property
    def difference(self) -> float:
        return self.ours - self.reference


def write_report(work: Path, out: Path) -> None:
    """Write the numbers to the page of results and to the JSON file beside it."""
    results = read_results(work)
    comparisons = compare_cases(results)
    variants = compare_variants(results)
    text = render_report(comparisons, variants, results)
    out.mkdir(parents=True, exist_ok=True)
    page = out / f"{PAGE}.md"
    page_text = f"# {TITLE}\n"
    if page.is_file():
        page_text = page.read_text()
    block = f"{START_MARK}\n\n{text}\n\n{END_MARK}"
    if START_MARK in page_text:
        before = page_text.partition(START_MARK)[0]
        after = page_text.partition(END_MARK)[2]
        page_text = f"{before}{block}{after}"
    else:
        page_text = f"{page_text.rstrip()}\n\n{block}\n"
    page.write_text(page_text)
    write_numbers(out / f"{PAGE}.json", comparisons, variants, results)
    # With this file in a new work folder, as `results.json`, `run` continues.
    raw_results = out / "data" / f"{PAGE}.json"
    raw_results.parent.mkdir(exist_ok=True)
    write_json(raw_results, results)
    print(text)


def compare_cases(results: Mapping[str, Row]) -> list[Comparison]:
    """Compare the command with the best reference of each case that has both."""
    cases: dict[str, dict[str, Row]] = {}
    for key, row in results.items():
        case, _, network = key.rpartition(": ")
        cases.setdefault(case, {})[network] = row
    comparisons = []
    for case, rows in cases.items():
        references = {}
        for network, row in rows.items():
            is_variant = network.startswith("without ") or network.endswith(SMALL_PICTURES)
            if network != COMMAND and not is_variant and "skipped" not in row:
                references[network] = get_quality(row)
        if COMMAND not in rows or not references:
            continue
        row = rows[COMMAND]
        best = max(references, key=lambda name: references[name])
        errors = [get_standard_error(row), get_standard_error(rows[best])]
        comparison = Comparison(
            case=case,
            network=", ".join(str(text) for text in as_list(row.get("selections"))),
            ours=get_quality(row),
            best=best,
            reference=references[best],
            standard_error=sqrt(errors[0] ** 2 + errors[1] ** 2),
            is_table=row.get("accuracy") is None,
            is_beaten=is_beaten(row),
        )
        comparisons.append(comparison)
    return comparisons


def as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def is_beaten(row: Row) -> bool:
    """Whether the command delivered a network that its own contest had beaten on validation."""
    if "is_tied" in row:
        return not row["is_tied"]
    if row.get("val_loss") is not None and row.get("best_val_loss") is not None:
        return read_number(row["val_loss"]) > read_number(row["best_val_loss"])
    return False


def read_number(value: object) -> float:
    assert isinstance(value, int | float)
    return float(value)


def get_quality(row: Row) -> float:
    """Return accuracy or AUC in per cent."""
    value = row.get("accuracy")
    if value is None:
        value = row["auc"]
    return 100 * read_number(value)


def get_standard_error(row: Row) -> float:
    """Return the standard error of the quality in points.

    For an AUC it is the upper bound of Birnbaum and Klose (1957), sqrt(A (1 - A) / m), where m is
    the number of samples of the smaller class, taken as a quarter of all samples.
    """
    share = get_quality(row) / 100
    count = read_number(row["test_samples"])
    if row.get("accuracy") is None:
        count /= 4
    return 100 * sqrt(share * (1 - share) / count)


def compare_variants(results: Mapping[str, Row]) -> dict[str, list[float]]:
    """Return by how many points the command is better than each of its variants, per case."""
    differences: dict[str, list[float]] = {}
    for key, row in results.items():
        case, _, network = key.rpartition(": ")
        whole = results.get(f"{case}: {COMMAND}")
        if network.startswith("without ") and whole is not None:
            difference = get_quality(whole) - get_quality(row)
            differences.setdefault(network.removeprefix("without "), []).append(difference)
    return differences


def compute_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean with Student's 95 % interval; infinite bounds for a single value."""
    from untrained.runs.ranking import compute_t_quantile

    mean = fmean(values)
    if len(values) < 2:
        return mean, float("-inf"), float("inf")
    margin = compute_t_quantile(len(values)) * stdev(values) / sqrt(len(values))
    return mean, mean - margin, mean + margin


def render_report(
    comparisons: Sequence[Comparison],
    variants: Mapping[str, Sequence[float]],
    results: Mapping[str, Row],
) -> str:
    """Return the comparison, the goals and the ablation as Markdown."""
    dates = sorted({str(row["date"]) for row in results.values()})
    period = ""
    if dates:
        period = dates[0]
    if len(dates) > 1:
        period = f"{dates[0]} to {dates[-1]}"
    core_counts = sorted({str(row.get("cores")) for row in results.values()})
    cores = " or ".join(core_counts)
    cores = "one CPU core" if cores == "1" else f"{cores} CPU cores"
    lines = [
        f"## {TITLE}",
        "",
        f"`python benchmarks/one_command.py`, {period}; {len(results)} trainings and commands, each "
        f"on {cores} of its own. Accuracy on pictures, AUC on tables, in per cent. "
        "The reference is the one that is best on the test samples, which favours it.",
        "",
        "| case | the command | delivered | best reference | difference | s.e. |",
        "|---|---|---|---|---|---|",
    ]
    for row in comparisons:
        lines.append(
            f"| {row.case} | {row.ours:.1f} | {row.network} | {row.best} {row.reference:.1f} | "
            f"{row.difference:+.1f} | {row.standard_error:.1f} |"
        )
    lines += ["", "### Goals", ""]
    lines += describe_goals(comparisons)
    if variants:
        lines += ["", "### Each part switched off", ""]
        lines += ["| part | points that it adds | 95 % interval | cases |", "|---|---|---|---|"]
        for name, differences in variants.items():
            mean, low, high = compute_interval(differences)
            lines.append(
                f"| {name} | {mean:+.1f} | {low:+.1f} to {high:+.1f} | {len(differences)} |"
            )
    return "\n".join(lines)


def describe_goals(comparisons: Sequence[Comparison]) -> list[str]:
    """Return how good the command is and how good it should be, one line per goal."""
    if not comparisons:
        return ["- no case is complete"]
    good = sum(1 for row in comparisons if row.difference >= -row.standard_error)
    lines = [
        f"- at least as good as the best reference within one standard error: {good} of "
        f"{len(comparisons)} cases ({100 * good / len(comparisons):.0f} %; the goal is 95 %)"
    ]
    pictures = [row.difference for row in comparisons if not row.is_table]
    if pictures:
        mean, low, high = compute_interval(pictures)
        lines.append(
            f"- mean difference on pictures: {mean:+.1f} points (95 % interval {low:+.1f} to "
            f"{high:+.1f} over {len(pictures)} cases; the goal is 1 point and an interval above 0)"
        )
    beaten = sum(1 for row in comparisons if row.is_beaten)
    lines.append(
        f"- delivered networks that the command's own contest had beaten on validation by more than "
        f"one standard error: {beaten} (the goal is 0)"
    )
    return lines


def write_numbers(
    path: Path,
    comparisons: Sequence[Comparison],
    variants: Mapping[str, Sequence[float]],
    results: Mapping[str, Row],
) -> None:
    """Write the numbers in the form of the other pages; keep those of other commands."""
    lines: list[Row] = []
    for row in comparisons:
        lines.append(
            {
                "what": f"{row.case}: the command minus {row.best}",
                "published": None,
                "ours": row.difference,
                "low": row.difference - 1.96 * row.standard_error,
                "high": row.difference + 1.96 * row.standard_error,
                "spread": None,
                "note": f"{row.ours:.1f} and {row.reference:.1f}",
                "better": None,
            }
        )
    pictures = [row.difference for row in comparisons if not row.is_table]
    if pictures:
        lines.append(describe_mean("mean difference on pictures", pictures))
    for name, differences in variants.items():
        lines.append(describe_mean(f"points that the {name} adds", differences))
    run = {
        "experiment": "",
        "paper": "",
        "title": TITLE,
        "about": "",
        "unit": "points",
        "lines": lines,
        "deviations": [],
        "command": "python benchmarks/one_command.py run",
        "settings": {"cases": str(len(comparisons)), "results": str(len(results))},
        "versions": {},
        "commit": ", ".join(sorted({str(row["commit"]) for row in results.values()})),
        "seconds": sum(read_number(row["seconds"]) for row in results.values()),
        "made_on": max((str(row["date"]) for row in results.values()), default=""),
    }
    runs = []
    if path.is_file():
        for existing_run in json.loads(path.read_text())["runs"]:
            if existing_run["title"] != TITLE:
                runs.append(existing_run)
    write_json(path, {"page": f"{PAGE}.md", "runs": [*runs, run]})


def describe_mean(what: str, differences: Sequence[float]) -> Row:
    """Return the mean of differences between networks, with its interval, as a line of numbers."""
    mean, low, high = compute_interval(differences)
    is_bounded = len(differences) > 1
    return {
        "what": what,
        "published": None,
        "ours": mean,
        "low": low if is_bounded else None,
        "high": high if is_bounded else None,
        "spread": None,
        "note": f"95 % interval over {len(differences)} cases",
        "better": None,
    }


if __name__ == "__main__":
    main()
