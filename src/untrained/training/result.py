"""The key and the result of a training, as plain data.

The folder of a training holds `train.json` (key, curve and result) and `model.pt` (the best weights
as a state dict). For a table it also holds `schema.json` and `vocabularies.npz`, which define how
rows are converted to numbers.
"""

import json
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from untrained.data.pictures.card import propose_batch_size
from untrained.data.samples import DATASET_NAME
from untrained.errors import UsageError
from untrained.files import find_free_folder, read_result_file, use_run_folder, write_atomically
from untrained.formatting import format_count, format_measured, format_percent
from untrained.training.accuracy import (
    compute_accuracy_interval,
    format_accuracy,
    make_chance_warning,
)
from untrained.training.recipes import Recipe, format_recipe
from untrained.training.regression_metrics import describe_bias, make_mean_warning
from untrained.types import BINARY, CLASSIFICATION, REGRESSION, TaskKind

if TYPE_CHECKING:
    from torch import nn

# Subfolder of a training on all samples: the same training without the test part.
ESTIMATE_FOLDER = "estimate"
TRAINING_FILE = "train.json"
# Fields of `TrainingResult` that have another key in `train.json`, which old runs contain too.
_STORED_KEYS = {"end_reason": "ended"}
# Fields that depend on the test part.
_TEST_RESULTS = (
    "loss",
    "accuracy",
    "auc",
    "normalised_entropy",
    "rmse",
    "mae",
    "r2",
    "bias",
    "constant",
    "confusion",
    "calibration",
    "calibration_error",
    "mistakes",
)
_RECIPE_DEFAULTS = {field.name: field.default for field in fields(Recipe)}


class AnotherTrainingError(UsageError):
    """A folder holds a training with another key."""


def format_regression_errors(rmse: float | None, mae: float | None, r2: float | None) -> str:
    """Return RMSE, MAE and R2 as text, such as "3.2, MAE 2.1, R2 0.870".

    The name of the first one is left out: it is in the sentence, or in the title of the row.
    """
    if rmse is None or mae is None:
        raise TypeError("a result of a regression has no RMSE or no MAE")
    text = f"{format_measured(rmse)}, MAE {format_measured(mae)}"
    if r2 is not None:
        text += f", R2 {r2:.3f}"
    return text


@dataclass(frozen=True)
class TrainingKey:
    """What identifies a training.

    Two trainings with equal keys produce the same weights on the same kind of machine, unless
    `finish_in` shortened one of them.

    Attributes:
        what: The network as the user named it, or the class name of a module.
        space: The space, with the options that the recipe added; empty for a network of the user.
        arch: The architecture.
        data: The data, as the user named it.
        recipe: Name and options of the recipe.
        seed: Seed of weights, order and augmentation.
        device: The device, or "accelerate".
        input_shape: The requested input shape, such as "3x32x32"; empty for the default.
        patience: Number of epochs without improvement after which the training stops.
        refit: Whether the validation part was used for training too, without selection; "all" if
            the test part was used as well.
        start: Fingerprint of the weights that the training began with; empty for fresh weights.
        code: Fingerprint of the user's code or module; for a registered space, its version if that
            is not 1.
        samples: Fingerprint of all samples.
        torch: Version of torch.
    """

    what: str
    space: str
    arch: str
    data: str
    recipe: dict[str, Any]
    seed: int
    device: str
    input_shape: str = ""
    patience: int | None = None
    refit: bool | str = False
    start: str = ""
    code: str = ""
    samples: str = ""
    torch: str = ""

    def check_same(self, former: "TrainingKey", folder: Path) -> None:
        """Check that the training in a folder is this one.

        Args:
            former: The key of the training in the folder.
            folder: The folder, for the message.

        Raises:
            AnotherTrainingError: It is another one. The message names all differences.
        """
        former_fields = former._flatten()
        differences = []
        for name, value in self._flatten().items():
            # Options that did not exist when the training was saved have their default values.
            former_value = former_fields.get(name, _RECIPE_DEFAULTS.get(name))
            # The same network can be named in several ways.
            if name == "what" or value == former_value:
                continue
            if name == "code":
                differences.append(f"an earlier version of {self.space or self.arch}")
            elif name == "start":
                differences.append("other weights to begin with")
            elif name == "samples":
                differences.append(self._describe_other_samples())
            else:
                differences.append(f"{name} {former_value!r} (now {value!r})")
        if differences:
            raise AnotherTrainingError(
                f"{folder} holds another training, with {', '.join(differences)}; "
                f"for this one add --run {find_free_folder(folder)}"
            )

    def _describe_other_samples(self) -> str:
        if self.data == DATASET_NAME:
            return "other samples"
        return f"other samples in {self.data} (changed since)"

    def _flatten(self) -> dict[str, Any]:
        """Return the fields and the options of the recipe in one dictionary."""
        key_fields = asdict(self)
        recipe = key_fields.pop("recipe")
        return {**key_fields, **recipe}


@dataclass(frozen=True)
class TrainingResult:
    """The result of a training.

    The test part is evaluated once, with the best weights. All metrics except those of `curve` and
    `best` were measured on it.

    Attributes:
        key: Identity of the training.
        end_reason: Why the training ended: "epochs", "patience" or "time".
        curve: One row of metrics per epoch.
        best: Epoch and kind of the best weights, and their validation metrics. After a refit there
            are no validation metrics, and the weights are those at the end.
        loss: Mean loss. For a regression it is the squared error of standardised labels.
        samples: Number of samples per part. After a refit, `train` includes the validation part.
        task: The task as plain data.
        normalisation: Mean and standard deviation per channel of images, or per feature or channel
            of arrays; empty for tables.
        params: Number of parameters.
        seconds: Training time in total.
        samples_per_second: Speed of finished epochs, without evaluation.
        calibration: One row per bin. For classes: number of samples, confidence and accuracy. For
            clicks and numbers: mean prediction, mean label, and number of rows.
        calibration_error: Mean distance between prediction and observation.
        command: What to type to repeat the training; empty for a module, which cannot be typed.
        versions: Versions of Python and of the packages.
        made_on: Date and time.
        accuracy: Accuracy; None unless classes are predicted.
        classes: Names of the classes.
        confusion: Confusion matrix; a row is a true class.
        mistakes: The worst mistakes: true and predicted class, their probabilities, and the image
            as a data URL. For numbers as labels of images, the largest errors: label, prediction
            and image.
        auc: Area under the ROC curve; None for classes, or if all labels are equal.
        normalised_entropy: Log loss relative to that of the mean click rate.
        rmse: Root of the mean squared error in the unit of the label; None unless numbers are
            predicted.
        mae: Mean absolute error in the unit of the label.
        r2: Share of the variance of the label that is explained; None if all labels are equal.
        bias: Mean of prediction minus label; None unless numbers are predicted.
        constant: The same metrics of a constant prediction: always the most frequent class, or the
            mean label, of the training rows. Empty for clicks, which have the normalised entropy,
            and for classes of pictures.
        notes: Settings that were chosen from the data, one sentence each.
        estimated_by: Folder of the training without the test part whose test results are shown;
            empty if they are this training's own.
        reads_arrays: Whether the samples are arrays of numbers (`data/arrays.py`), not images or
            rows of a table.
        folder: The folder of the training.
        model: The network with the best weights, in evaluation mode; None if read from a file.
        was_finished: Whether an earlier call had finished the training, so that the last call of
            `train` trained nothing. It is not saved.
    """

    key: TrainingKey
    end_reason: str
    curve: tuple[dict[str, float], ...]
    best: dict[str, Any]
    loss: float
    samples: dict[str, int]
    task: dict[str, Any]
    normalisation: dict[str, list[float]]
    params: int
    seconds: float
    samples_per_second: float
    calibration: list[dict[str, float]]
    calibration_error: float
    command: str
    versions: dict[str, str]
    made_on: str
    accuracy: float | None = None
    classes: tuple[str, ...] = ()
    confusion: list[list[int]] = field(default_factory=list)
    mistakes: list[dict[str, Any]] = field(default_factory=list)
    auc: float | None = None
    normalised_entropy: float | None = None
    rmse: float | None = None
    mae: float | None = None
    r2: float | None = None
    bias: float | None = None
    constant: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    estimated_by: str = ""
    reads_arrays: bool = False
    folder: str = ""
    model: "nn.Module | None" = field(default=None, compare=False)
    was_finished: bool = field(default=False, compare=False)

    @property
    def warning(self) -> str:
        """Advice if one batch holds all samples, so an epoch was one step; else empty."""
        batch = self.key.recipe["batch"]
        samples = self.samples["train"]
        better_batch = propose_batch_size(samples, 1)
        if batch <= samples or samples <= better_batch:
            return ""
        recipe = format_recipe({**self.key.recipe, "batch": better_batch})
        return (
            f"the batch size {batch} is larger than the {samples} training samples, so an epoch "
            f'was one step; for more steps: --recipe "{recipe}"'
        )

    @property
    def chance_warning(self) -> str:
        """A warning if the network may be no better than a constant prediction; else empty."""
        if self.rmse is not None and self.constant:
            return make_mean_warning(self.rmse, self.constant["rmse"])
        if self.accuracy is None:
            return ""
        return make_chance_warning(self.accuracy, self.confusion)

    @property
    def estimate_text(self) -> str:
        """Where the test result comes from if the test part was trained on; else empty."""
        if not self.estimated_by:
            return ""
        return (
            "the test result is that of the same training without the test part, in "
            f"{self.estimated_by}; afterwards the network was trained on all "
            f"{format_count(self.samples['train'], 'sample')}"
        )

    def with_test_results_of(self, estimate: "TrainingResult") -> "TrainingResult":
        """Return this result with the test results of another training.

        Args:
            estimate: The same training without the test part.
        """
        changes = {name: getattr(estimate, name) for name in _TEST_RESULTS}
        return replace(self, estimated_by=estimate.folder, **changes)

    @property
    def kind(self) -> TaskKind:
        """What the network predicts: a binary label, classes or numbers."""
        if self.rmse is not None:
            return REGRESSION
        if self.accuracy is not None:
            return CLASSIFICATION
        return BINARY

    @property
    def constant_text(self) -> str:
        """What a constant prediction achieves on the test part; empty without `constant`."""
        if self.kind == CLASSIFICATION and self.constant:
            return (
                "always predicting the most frequent class has a test accuracy of "
                f"{100 * self.constant['accuracy']:.2f} %, and predicting the shares of the "
                f"classes a log loss of {self.constant['loss']:.4f}"
            )
        if self.kind == REGRESSION and self.constant:
            rmse = format_measured(self.constant["rmse"])
            mae = format_measured(self.constant["mae"])
            return f"always predicting the mean has a test RMSE of {rmse} and an MAE of {mae}"
        return ""

    @property
    def bias_text(self) -> str:
        """The mean error of a regression on the test part in words; else empty."""
        if self.bias is None:
            return ""
        return describe_bias(self.bias)

    def format_test_result(self) -> str:
        """Return the result on the test part.

        For example: "accuracy 20.8 % (95 % interval 14.5 to 28.9 %, 120 samples)".
        """
        if self.kind == REGRESSION:
            return f"RMSE {format_regression_errors(self.rmse, self.mae, self.r2)}"
        if self.kind == CLASSIFICATION:
            return f"accuracy {format_accuracy(self.accuracy or 0.0, self.samples['test'])}"
        if self.auc is None:
            return f"log loss {self.loss:.4f}"
        return f"log loss {self.loss:.4f}, AUC {format_percent(self.auc, 2)}"

    def to_document(self) -> dict[str, Any]:
        """Return the result as `--json` prints it: plain data without images."""
        result_fields = self._make_document()
        del result_fields["model"]
        del result_fields["was_finished"]
        del result_fields["key"]
        mistakes = []
        for mistake in self.mistakes:
            row = dict(mistake)
            row.pop("picture", None)
            mistakes.append(row)
        return {**asdict(self.key), **result_fields, "mistakes": mistakes}

    def save(self) -> "TrainingResult":
        """Write `train.json` into the folder of the training."""
        content = self._make_document()
        del content["model"]
        del content["was_finished"]
        del content["folder"]
        content["key"] = asdict(self.key)
        folder = Path(self.folder)
        with use_run_folder(folder):
            write_atomically(folder / TRAINING_FILE, json.dumps(content, indent=1) + "\n")
        return self

    def _make_document(self) -> dict[str, Any]:
        """Return the fields by their keys in `train.json` and in the output of `--json`."""
        document = {}
        for name, value in vars(self).items():
            document[_STORED_KEYS.get(name, name)] = value
        return document

    @staticmethod
    def read(folder: str | Path) -> "TrainingResult":
        """Read `train.json` from the folder of a training.

        Raises:
            UsageError: The file is missing or damaged.
        """
        with read_result_file(Path(folder, TRAINING_FILE)) as content:
            content["key"] = TrainingKey(**content["key"])
            content["curve"] = tuple(content["curve"])
            content["classes"] = tuple(content["classes"])
            content["notes"] = tuple(content.get("notes", ()))
            estimate = Path(folder, ESTIMATE_FOLDER)
            # The folder may have been moved since the training.
            if content.get("estimated_by") and estimate.is_dir():
                content["estimated_by"] = str(estimate)
            content["folder"] = str(folder)
            for name, key in _STORED_KEYS.items():
                content[name] = content.pop(key)
            result = TrainingResult(**content)
            # An impossible accuracy is reported here, as damage of this file.
            if result.accuracy is not None:
                compute_accuracy_interval(result.accuracy, result.samples["test"])
            return result
