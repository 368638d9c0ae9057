"""What a trained network is worth, worked out by hand."""

from base64 import b64decode
from io import BytesIO

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from untrained.training.evaluation import (
    DivergedError,
    Predictions,
    evaluate_network,
    get_selection_metric,
)
from untrained.training.final_evaluation import encode_image
from untrained.types import Batch, Task


def five() -> Predictions:
    """Five samples of three classes: two right, the third and fifth wrong with little chance for the truth."""
    chances = [
        [0.7, 0.2, 0.1],
        [0.1, 0.85, 0.05],
        [0.95, 0.03, 0.02],
        [0.3, 0.3, 0.4],
        [0.0, 0.08, 0.92],
    ]
    return Predictions(torch.tensor(chances), torch.tensor([0, 1, 2, 0, 1]), 1.0)


def test_accuracy_and_confusion_count_what_was_said():
    found = five()
    assert found.accuracy == 2 / 5
    assert found.confusion_matrix() == [[1, 0, 1], [0, 1, 1], [1, 0, 0]]


def test_the_hardest_mistakes_gave_the_truth_the_least_chance():
    assert five().find_worst_mistakes(10) == [2, 4, 3]
    assert five().find_worst_mistakes(1) == [2]
    right = Predictions(torch.eye(2), torch.arange(2), 0.0)
    assert right.find_worst_mistakes(5) == []


def test_calibration_compares_how_sure_with_how_right():
    """Highest chances 0.7, 0.85, 0.95, 0.4 and 0.92, in bins of a tenth; 0.92 and 0.95 share the last."""
    found = five()
    assert [row["samples"] for row in found.calibration()] == [1, 1, 1, 2]
    assert [row["accuracy"] for row in found.calibration()] == [0.0, 1.0, 1.0, 0.0]
    assert found.calibration()[-1]["confidence"] == pytest.approx(0.935)
    assert found.calibration_error() == pytest.approx((0.4 + 0.3 + 0.15 + 2 * 0.935) / 5)
    sure = Predictions(torch.tensor([[0.0, 1.0]]), torch.tensor([1]), 0.0)
    assert sure.calibration() == [{"samples": 1, "confidence": 1.0, "accuracy": 1.0}]


def test_all_batches_are_asked_in_evaluation_mode():
    class Marked(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            assert not self.training
            return x

    logits = torch.tensor([[2.0, 0.0], [0.0, 2.0], [0.0, 1.0]])
    batches = [Batch(logits[:2], torch.tensor([0, 0])), Batch(logits[2:], torch.tensor([1]))]
    found = evaluate_network(Marked().train(), batches, Task("x", (2,), 2), torch.contiguous_format)
    assert found.accuracy == pytest.approx(2 / 3)
    torch.testing.assert_close(found.probabilities, logits.softmax(1))
    chosen = logits.log_softmax(1)[[0, 1, 2], [0, 0, 1]]
    assert found.loss == pytest.approx(-float(chosen.mean()))


def test_one_output_means_no_or_yes_and_is_judged_by_log_loss():
    batches = [Batch(torch.tensor([[3.0], [-1.0]]), torch.tensor([1.0, 0.0]))]
    task = Task("x", (1,), 1, "bce")
    found = evaluate_network(nn.Identity(), batches, task, torch.contiguous_format)
    loss = -(np.log(1 / (1 + np.exp(-3.0))) + np.log(1 / (1 + np.exp(-1.0)))) / 2
    assert found.summary == {"loss": pytest.approx(loss), "auc": 1.0}
    assert (get_selection_metric(task), get_selection_metric(Task("x", (1,), 2))) == (
        ("loss", -1),
        ("accuracy", 1),
    )


@pytest.mark.parametrize("loss", ["bce", "cross_entropy"])
@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_answers_that_are_no_numbers_are_refused(loss, wrong):
    outputs = torch.tensor([[1.0], [wrong]]).expand(2, 1 if loss == "bce" else 2)
    batches = [Batch(outputs[:1], torch.tensor([1])), Batch(outputs[1:], torch.tensor([0]))]
    with pytest.raises(
        DivergedError, match="the training diverged: outputs of the network are not finite"
    ):
        evaluate_network(
            nn.Identity(), batches, Task("x", (1,), outputs.shape[1], loss), torch.contiguous_format
        )


def test_a_picture_is_a_png_of_bearable_size():
    colours = torch.randint(256, (5, 7, 3), dtype=torch.uint8)
    head, data = encode_image(colours).split(",")
    assert head == "data:image/png;base64"
    shown = np.array(Image.open(BytesIO(b64decode(data))))
    assert (shown == colours.numpy()).all()
    large = encode_image(torch.zeros(300, 200, 1, dtype=torch.uint8)).split(",")[1]
    assert Image.open(BytesIO(b64decode(large))).size == (64, 96)
