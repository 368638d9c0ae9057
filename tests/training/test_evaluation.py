"""The evaluation of a trained network, compared with results computed by hand."""

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


def make_five_predictions() -> Predictions:
    """Five samples of three classes: two are right; the true class is least likely in the third and the fifth."""
    probabilities = [
        [0.7, 0.2, 0.1],
        [0.1, 0.85, 0.05],
        [0.95, 0.03, 0.02],
        [0.3, 0.3, 0.4],
        [0.0, 0.08, 0.92],
    ]
    return Predictions(torch.tensor(probabilities), torch.tensor([0, 1, 2, 0, 1]), 1.0)


def test_accuracy_and_confusion_matrix_count_predictions():
    predictions = make_five_predictions()
    assert predictions.accuracy == 2 / 5
    assert predictions.count_confusions() == [[1, 0, 1], [0, 1, 1], [1, 0, 0]]


def test_the_worst_mistakes_give_the_true_class_the_lowest_probability():
    assert make_five_predictions().find_worst_mistakes(10) == [2, 4, 3]
    assert make_five_predictions().find_worst_mistakes(1) == [2]
    right = Predictions(torch.eye(2), torch.arange(2), 0.0)
    assert right.find_worst_mistakes(5) == []


def test_calibration_compares_confidence_with_accuracy():
    """The confidences are 0.7, 0.85, 0.95, 0.4 and 0.92, in bins of width 0.1; 0.92 and 0.95 share the last."""
    predictions = make_five_predictions()
    assert [row["samples"] for row in predictions.compute_calibration()] == [1, 1, 1, 2]
    assert [row["accuracy"] for row in predictions.compute_calibration()] == [0.0, 1.0, 1.0, 0.0]
    assert predictions.compute_calibration()[-1]["confidence"] == pytest.approx(0.935)
    assert predictions.compute_calibration_error() == pytest.approx(
        (0.4 + 0.3 + 0.15 + 2 * 0.935) / 5
    )
    sure = Predictions(torch.tensor([[0.0, 1.0]]), torch.tensor([1]), 0.0)
    assert sure.compute_calibration() == [{"samples": 1, "confidence": 1.0, "accuracy": 1.0}]


def test_all_batches_are_evaluated_in_evaluation_mode():
    class Marked(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            assert not self.training
            return x

    logits = torch.tensor([[2.0, 0.0], [0.0, 2.0], [0.0, 1.0]])
    batches = [Batch(logits[:2], torch.tensor([0, 0])), Batch(logits[2:], torch.tensor([1]))]
    predictions = evaluate_network(
        Marked().train(), batches, Task("x", (2,), 2), torch.contiguous_format
    )
    assert predictions.accuracy == pytest.approx(2 / 3)
    torch.testing.assert_close(predictions.probabilities, logits.softmax(1))
    log_probabilities = logits.log_softmax(1)[[0, 1, 2], [0, 0, 1]]
    assert predictions.loss == pytest.approx(-float(log_probabilities.mean()))


def test_one_output_is_a_binary_classification_with_log_loss():
    batches = [Batch(torch.tensor([[3.0], [-1.0]]), torch.tensor([1.0, 0.0]))]
    task = Task("x", (1,), 1, "bce")
    predictions = evaluate_network(nn.Identity(), batches, task, torch.contiguous_format)
    loss = -(np.log(1 / (1 + np.exp(-3.0))) + np.log(1 / (1 + np.exp(-1.0)))) / 2
    assert predictions.summary == {"loss": pytest.approx(loss), "auc": 1.0}
    assert get_selection_metric(task) == ("loss", -1)


def test_the_loss_selects_the_weights_of_tables_and_the_accuracy_those_of_pictures():
    for loss in ("bce", "mse", "cross_entropy"):
        assert get_selection_metric(Task("x", (5,), 1, loss)) == ("loss", -1)
    assert get_selection_metric(Task("x", (3, 8, 8), 2)) == ("accuracy", 1)
    assert get_selection_metric(Task("x", (3, 8, 8), 1, "mse")) == ("loss", -1)


@pytest.mark.parametrize("loss", ["bce", "cross_entropy"])
@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_outputs_that_are_not_finite_are_refused(loss, wrong):
    outputs = torch.tensor([[1.0], [wrong]]).expand(2, 1 if loss == "bce" else 2)
    batches = [Batch(outputs[:1], torch.tensor([1])), Batch(outputs[1:], torch.tensor([0]))]
    with pytest.raises(
        DivergedError, match="the training diverged: outputs of the network are not finite"
    ):
        evaluate_network(
            nn.Identity(), batches, Task("x", (1,), outputs.shape[1], loss), torch.contiguous_format
        )


def test_an_image_is_encoded_as_a_png_of_limited_size():
    colours = torch.randint(256, (5, 7, 3), dtype=torch.uint8)
    head, data = encode_image(colours).split(",")
    assert head == "data:image/png;base64"
    decoded = np.array(Image.open(BytesIO(b64decode(data))))
    assert (decoded == colours.numpy()).all()
    large = encode_image(torch.zeros(300, 200, 1, dtype=torch.uint8)).split(",")[1]
    assert Image.open(BytesIO(b64decode(large))).size == (64, 96)
