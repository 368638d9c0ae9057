"""`make bench` measures proxies, keeps a measurement per date, and says what became slower."""

import json
import runpy
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "performance.py"


def run_script(words: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """Run the script in this process and return its exit code."""
    monkeypatch.setattr(sys, "argv", ["performance.py", *words])
    threads = torch.get_num_threads()
    try:
        runpy.run_path(str(SCRIPT), run_name="__main__")
    except SystemExit as exit_:
        return int(exit_.code or 0)
    finally:
        torch.set_num_threads(threads)
    return 0


def make_measurement(date: str, forwards: dict[str, float], ms: float = 100.0, samples: int = 64):
    proxies = {}
    for name, ratio in forwards.items():
        proxies[name] = {
            "samples": samples,
            "ms": ms,
            "forwards": ratio,
            "trainings": ratio / 3,
            "failure": "",
        }
    space = {
        "arch": "x",
        "side": 32,
        "macs": 10**6,
        "params": 10**5,
        "training_ms": 50.0,
        "together_ms": 500.0,
        "consensus_ms": 100.0,
        "dextr_ms": 50.0,
        "proxies": proxies,
    }
    return {"date": date, "machine": "a machine", "spaces": {"nasbench201": space}}


def write_measurements(folder: Path, *measurements: dict[str, object]) -> None:
    text = json.dumps({"measurements": measurements})
    (folder / "performance.json").write_text(text)


def test_a_proxy_that_became_slower_by_more_than_a_fifth_is_reported(tmp_path, monkeypatch, capsys):
    before = make_measurement("2026-01-01", {"grasp": 10.0, "snip": 3.0, "trace": 5.0})
    after = make_measurement("2026-02-01", {"grasp": 12.1, "snip": 3.5, "trace": 2.0})
    write_measurements(tmp_path, before, after)
    code = run_script(["--compare", "--folder", str(tmp_path)], monkeypatch)
    assert code == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["slower: nasbench201, grasp: 12.1 forward passes, 10.0 on 2026-01-01"]


@pytest.mark.parametrize(
    "after",
    [
        make_measurement("2026-02-01", {"grasp": 11.9}),
        make_measurement("2026-02-01", {"grasp": 90.0}, samples=128),
        make_measurement("2026-02-01", {"grasp": 90.0}, ms=2.0),
        make_measurement("2026-02-01", {"knas": 90.0}),
    ],
    ids=["a fifth", "other samples", "too short to compare", "a new proxy"],
)
def test_other_changes_are_not_reported(after, tmp_path, monkeypatch, capsys):
    write_measurements(tmp_path, make_measurement("2026-01-01", {"grasp": 10.0}), after)
    assert run_script(["--compare", "--folder", str(tmp_path)], monkeypatch) == 0
    assert "nothing became slower" in capsys.readouterr().out


def test_a_run_adds_a_measurement_and_writes_the_page(tmp_path, monkeypatch):
    write_measurements(tmp_path, make_measurement("2026-01-01", {"swap": 1e6}))
    options = ["--spaces", "nasbench201", "--proxies", "params,swap,dss", "--repeats", "1"]
    assert run_script([*options, "--folder", str(tmp_path)], monkeypatch) == 0
    measurements = json.loads((tmp_path / "performance.json").read_text())["measurements"]
    assert [len(entry["spaces"]) for entry in measurements] == [1, 1]
    assert measurements[0]["date"] == "2026-01-01"
    proxies = measurements[1]["spaces"]["nasbench201"]["proxies"]
    assert proxies["swap"]["samples"] == 16
    assert proxies["swap"]["ms"] > 0
    assert "attention" in proxies["dss"]["failure"]
    page = (tmp_path / "performance.md").read_text()
    assert measurements[1]["date"] in page
    assert "| `swap` | 16 | " in page
    # Another run on the same day replaces the measurement.
    assert run_script([*options, "--folder", str(tmp_path)], monkeypatch) in (0, 1)
    again = json.loads((tmp_path / "performance.json").read_text())["measurements"]
    assert len(again) == 2


def test_the_page_says_why_a_proxy_is_slow(tmp_path):
    script = runpy.run_path(str(SCRIPT))
    write_measurements(
        tmp_path,
        make_measurement("2026-01-01", {"vkdnw": 25.0, "snip": 21.0, "grasp": 19.0}),
    )
    (measurement,) = script["read_measurements"](tmp_path / "performance.json")
    page = script["format_page"](measurement)
    assert "| `vkdnw` | 16 | **25.0** |" in page
    assert "- `vkdnw` (nasbench201): one backward pass per output, at most 16." in page
    assert "- `snip` (nasbench201): no reason is known" in page
    assert "- `grasp`" not in page
