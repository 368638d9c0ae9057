"""`untrained report` of runs and trainings that were stopped."""

import pytest

from tests.cli.helpers import SEARCH
from untrained.runs.session import SESSION_FILE

SESSION = '{"phase": "contest", "done": 5, "total": 100, "is_percentage": true}'


def test_the_report_of_a_killed_run_says_so_in_the_terminal_too(run_cli, project):
    run_cli(*SEARCH, "--proxy", "params", "--workers", "1")
    assert run_cli("report", "run")[1] == "report: run/report.html\n"
    (project / "run" / SESSION_FILE).write_text(SESSION)
    code, out, _ = run_cli("report", "run")
    assert code == 0
    sentence = (
        "The last session was killed (contest, 5 % done). What was finished is kept, and the same "
        "command resumes."
    )
    assert " ".join(out.split()) == f"{sentence} report: run/report.html"
    assert sentence in (project / "run" / "report.html").read_text()


@pytest.mark.parametrize("file", ["checkpoint.pt", "estimate/checkpoint.pt", "estimate/train.json"])
def test_the_report_of_a_stopped_training_says_how_to_resume_it(run_cli, project, file):
    path = project / "net" / file
    path.parent.mkdir(parents=True)
    path.write_bytes(b"")
    code, out, err = run_cli("report", "net")
    assert (code, out) == (2, "")
    message = " ".join(err.split())
    assert "the same `untrained train` command resumes it" in message
    assert "untrained search" not in message
