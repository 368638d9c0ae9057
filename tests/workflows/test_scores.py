"""`ut.score` returns scores by proxy."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import untrained as ut
from untrained.errors import Unscorable
from untrained.workflows.score import score_networks
from untrained.workflows.scores import Scores


@ut.proxy(higher_is_better=True, samples=4)
def mean_input(probe):
    """Mean of the inputs."""
    return float(probe.batch.inputs.double().mean())


@ut.proxy(samples=4)
def output_norm(probe):
    """Norm of the output."""
    return probe.model(probe.batch.inputs).norm()


@ut.proxy(higher_is_better=True)
def never(probe):
    """Not a number."""
    return float("nan")


def make_model(width: int = 3) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(12, width))


def make_inputs() -> torch.Tensor:
    return torch.arange(48, dtype=torch.float32).reshape(4, 3, 2, 2)


def test_scores_are_a_mapping_from_proxy_to_number():
    scores = ut.score(make_model(), make_inputs(), proxies=["params", mean_input])
    assert dict(scores) == {"params": 12 * 3 + 3, "mean_input": 23.5}
    assert list(scores) == ["params", "mean_input"]
    assert len(scores) == 2
    assert "params" in scores
    assert "flops" not in scores
    with pytest.raises(KeyError, match="no score by 'flops'; available: params, mean_input"):
        scores["flops"]
    assert scores.get("flops") is None


@pytest.mark.parametrize("network_type", [torch.float32, torch.float64])
@pytest.mark.parametrize("data_type", [torch.float32, torch.float64])
def test_inputs_are_converted_to_the_float_type_of_a_module(network_type, data_type):
    """A linear layer refuses inputs of another type than that of its weights."""
    model = make_model().to(network_type)
    inputs = make_inputs().to(data_type)
    scores = ut.score(model, inputs, proxies=[output_norm])
    with torch.no_grad():
        expected = float(model(make_inputs().to(network_type)).norm())
    assert scores["output_norm"] == pytest.approx(expected)
    assert next(model.parameters()).dtype == network_type


def test_integer_inputs_stay_integers():
    model = nn.Sequential(nn.Embedding(5, 2), nn.Flatten(), nn.Linear(6, 3))
    indices = torch.tensor([[0, 1, 2], [3, 4, 0]])
    scores = ut.score(model, indices, proxies=[mean_input])
    assert scores["mean_input"] == 10 / 6


def test_a_failed_proxy_raises_its_reason_when_it_is_read():
    scores = ut.score(make_model(), make_inputs(), proxies=[never, "params"])
    assert scores["params"] == 39
    assert "never" in scores
    assert scores.failures["never"].kind == "nan"
    with pytest.raises(Unscorable, match="nan: never has no score for Sequential") as caught:
        scores["never"]
    assert caught.value.kind == "nan"


def test_a_score_is_the_mean_over_seeds():
    arch = ut.load_space("nasbench201").sample(seed=0)
    scores = ut.score(arch, "noise", proxies="synflow", seeds=3)
    values = [record.value for record in scores.records]
    assert len(set(values)) == 3
    assert scores["synflow"] == pytest.approx(np.mean(values), rel=1e-12)
    frame = scores.frame()
    assert frame["value"].tolist() == values
    assert frame["mean"].iloc[0] == pytest.approx(np.mean(values), rel=1e-12)


def test_the_text_shows_one_line_per_proxy():
    scores = ut.score(make_model(), make_inputs(), proxies=["params", never])
    assert repr(scores).splitlines()[:2] == ["Scores of Sequential", "  params  39"]
    assert repr(scores).splitlines()[2].startswith("  never   failed: nan")


def test_a_notebook_shows_an_escaped_table():
    class Evil(nn.Flatten):
        pass

    Evil.__name__ = "<b>"
    html = ut.score(Evil(), make_inputs(), proxies=["params"])._repr_html_()
    assert "<td>params</td><td>0</td>" in html
    assert "Scores of &lt;b&gt;" in html
    assert "<b>" not in html


def test_a_list_of_networks_gives_one_scores_per_network():
    networks = [make_model(3), make_model(5), make_model(3)]
    first, second, third = ut.score(networks, make_inputs(), proxies=["params", "az_nas"])
    assert [first["params"], second["params"], third["params"]] == [39, 65, 39]
    assert [scores.network for scores in (first, second, third)] == [
        "Sequential",
        "Sequential#2",
        "Sequential#3",
    ]
    records = score_networks(networks, ["params", "az_nas"], make_inputs())
    aggregates = [record.value for record in records if record.proxy == "az_nas"]
    assert [first["az_nas"], second["az_nas"], third["az_nas"]] == aggregates


def test_equal_architectures_of_a_list_all_have_scores():
    arch = ut.load_space("nasbench201").sample(seed=0)
    first, second = ut.score([arch, arch], "noise", proxies="params")
    assert first["params"] == second["params"]


def test_data_may_be_arrays_or_a_torch_data_set():
    inputs = make_inputs()
    targets = torch.tensor([0, 1, 2, 0])
    dataset = TensorDataset(inputs, targets)
    forms = {
        "tensor": inputs,
        "pair": (inputs, targets),
        "array": inputs.numpy(),
        "pair of arrays": (inputs.numpy(), targets.numpy()),
        "data set": dataset,
        "loader": DataLoader(dataset, batch_size=4),
    }
    for name, data in forms.items():
        scores = ut.score(make_model(), data, proxies=mean_input)
        assert isinstance(scores, Scores), name
        assert scores["mean_input"] == 23.5, name


def test_names_and_paths_are_data_too(tmp_path):
    path = tmp_path / "data.npz"
    images = np.random.default_rng(0).integers(256, size=(8, 2, 2, 3), dtype=np.uint8)
    np.savez(path, x=images, y=np.arange(8) % 3)
    by_name = ut.score(make_model(), f"npz:{path}", proxies=mean_input, input_shape=(3, 2, 2))
    by_path = ut.score(make_model(), path, proxies=mean_input, input_shape=(3, 2, 2))
    assert by_name["mean_input"] == by_path["mean_input"] != 0


def test_architectures_and_texts_are_networks():
    space = ut.load_space("nasbench201")
    arch = space.sample(seed=0)
    by_arch = ut.score(arch, "noise", proxies=["params"])
    by_text = ut.score(str(arch), "noise", proxies=["params"])
    expected = sum(p.numel() for p in space.build(arch, space.task).parameters())
    assert by_arch["params"] == by_text["params"] == expected
