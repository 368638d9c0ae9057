"""The cost of proxies in milliseconds: measured alone, cached per machine and version."""

import json
from pathlib import Path

import pytest

import untrained as ut
from untrained.errors import UsageError
from untrained.proxies import PROXIES
from untrained.workflows import proxy_cost
from untrained.workflows.proxy_cost import describe_measurement, measure_proxy_costs

NAMES = ("params", "naswot", "consensus")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    """An empty cache, and the smallest network."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(proxy_cost, "SPACE", "nasbench201(channels=2,cells=1)")
    return tmp_path


def measure(*names: str) -> dict[str, float | None]:
    return measure_proxy_costs([PROXIES[name] for name in names])


def test_each_single_proxy_has_a_positive_time(cache):
    costs = measure(*NAMES)
    # An aggregate is not measured: it shares passes, and its parts have rows of their own.
    assert set(costs) == {"params", "naswot"}
    assert all(cost is not None and cost > 0 for cost in costs.values())


def test_times_are_kept_and_only_missing_ones_are_measured(cache, monkeypatch):
    first = measure("params")
    calls = []
    real = proxy_cost._measure_seconds

    def count_calls(proxy, arch):
        calls.append(proxy.name)
        return real(proxy, arch)

    monkeypatch.setattr(proxy_cost, "_measure_seconds", count_calls)
    assert measure("params") == first
    assert calls == []
    both = measure("params", "naswot")
    assert both["params"] == first["params"]
    # The first call warms up.
    assert calls == ["naswot", "naswot"]


def test_another_version_or_number_of_threads_is_measured_again(cache, monkeypatch):
    measure("params")
    (path,) = (cache / "untrained" / "proxy-costs").iterdir()
    monkeypatch.setattr(proxy_cost.torch, "__version__", "9.9")
    assert proxy_cost._find_cache_file() != path
    monkeypatch.undo()


def test_a_damaged_cache_is_measured_again(cache):
    measure("params")
    (path,) = (cache / "untrained" / "proxy-costs").iterdir()
    for text in ("", "[]", '{"params@1": "x"}', "\x00"):
        path.write_text(text)
        costs = measure("params")
        assert costs["params"] is not None
        assert json.loads(path.read_text()) != text


def test_a_proxy_without_a_score_has_no_time(cache):
    @ut.proxy()
    def broken(probe: ut.Probe) -> float:
        return 1 / 0

    assert measure_proxy_costs([broken]) == {"broken": None}


def test_the_remark_names_network_threads_and_version():
    remark = describe_measurement()
    assert "milliseconds for one network of nasbench201" in remark
    assert proxy_cost.torch.__version__ in remark


def test_the_option_is_about_proxies():
    from untrained.cli.list_command import list_entries

    for kind in (None, "spaces"):
        with pytest.raises(UsageError, match="untrained list proxies --measure"):
            list_entries(kind, measure=True)
