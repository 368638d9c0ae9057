"""`untrained report --serve`: what it serves, and that nothing else can be read."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from threading import Thread

import pytest

from tests.cli.helpers import SEARCH, read_usage_error
from untrained.cli.report_server import ReportServer, read_page

PAGE = "<!doctype html><title>Ünser Report</title>"
SECRET = "the secret of another folder"


@pytest.fixture
def folder(tmp_path) -> Path:
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "report.html").write_text(PAGE)
    (folder / "run.json").write_text(SECRET)
    (tmp_path / "secret.txt").write_text(SECRET)
    return folder


@pytest.fixture
def server(folder) -> Iterator[ReportServer]:
    with ReportServer(folder / "report.html") as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def request(server: ReportServer, path: str, method: str = "GET", host: str | None = None):
    """Send a request as it stands; returns status, headers and content."""
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", host or f"127.0.0.1:{server.server_port}")
    connection.endheaders()
    response = connection.getresponse()
    content = response.read().decode()
    connection.close()
    return response.status, response.headers, content


def test_it_serves_the_page_on_the_loopback_interface(server):
    assert server.server_address[0] == "127.0.0.1"
    assert server.address == f"http://127.0.0.1:{server.server_port}/"
    for path in ("/", "/report.html"):
        status, headers, content = request(server, path)
        assert (status, content) == (200, PAGE)
        assert headers["Content-Type"] == "text/html; charset=utf-8"
        assert headers["Cache-Control"] == "no-store"
        assert headers["X-Content-Type-Options"] == "nosniff"
    status, headers, content = request(server, "/", "HEAD")
    assert (status, content) == (200, "")
    assert int(headers["Content-Length"]) == len(PAGE.encode())


def test_every_request_reads_the_page_again(server, folder):
    (folder / "report.html").write_text("new")
    assert request(server, "/")[2] == "new"
    (folder / "report.html").unlink()
    assert request(server, "/")[0] == 404


HOSTILE_PATHS = [
    "/run.json",
    "/records.sqlite",
    "/../secret.txt",
    "/..%2fsecret.txt",
    "/%2e%2e/secret.txt",
    "/..\\secret.txt",
    "/report.html/../../secret.txt",
    "/report.html/",
    "/report.html%00.txt",
    "//etc/passwd",
    "/etc/passwd",
    "/?../secret.txt",
    "/./report.html",
    "report.html",
    "../secret.txt",
    "file:///etc/passwd",
    "http://127.0.0.1/../secret.txt",
    "/" + "a" * 10_000,
    "/\x7f",
]


@pytest.mark.parametrize("path", HOSTILE_PATHS, ids=range(len(HOSTILE_PATHS)))
def test_no_other_path_is_answered(server, path):
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=30) as client:
        host = f"127.0.0.1:{server.server_port}"
        client.sendall(f"GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode("latin-1"))
        with client.makefile("rb") as stream:
            answer = stream.read().decode("latin-1")
    assert re.match(r"HTTP/1\.0 4\d\d ", answer)
    assert SECRET not in answer
    assert "root:" not in answer


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "", "["])
def test_other_host_names_are_refused(server, host):
    """A foreign page could otherwise read the report by a name that it points to 127.0.0.1."""
    host = host.format(port=server.server_port)
    assert request(server, "/", host=host or " ")[0] == 421
    assert request(server, "/", host=f"localhost:{server.server_port}")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"])
def test_nothing_can_be_sent(server, method):
    assert request(server, "/", method)[0] == 501


def test_a_link_in_place_of_the_page_is_not_followed(server, folder):
    page = folder / "report.html"
    page.unlink()
    page.symlink_to(folder.parent / "secret.txt")
    status, _, content = request(server, "/")
    assert status == 404
    assert SECRET not in content


def test_a_pipe_or_folder_in_place_of_the_page_does_not_hang(folder):
    os.mkfifo(folder / "pipe")
    for path in (folder / "pipe", folder):
        with pytest.raises(OSError, match=r"is not a file|Is a directory"):
            read_page(path)


def test_a_port_in_use_and_contradictions_are_refused_in_one_line(run_cli, server, project):
    assert run_cli(*SEARCH, "--proxy", "params")[0] == 0
    result = run_cli("report", "run", "--serve", "--port", str(server.server_port))
    assert result[0] == 2
    assert f"port {server.server_port} cannot be used" in result[2]
    assert result[2].count("\n") == 1
    assert "--port 8000 has no effect" in read_usage_error(
        run_cli("report", "run", "--port", "8000")
    )
    assert "--serve and --json" in read_usage_error(run_cli("report", "run", "--serve", "--json"))
    assert "--port" in read_usage_error(run_cli("report", "run", "--serve", "--port", "70000"))


def test_the_command_prints_the_address_and_ends_with_ctrl_c(run_cli, project):
    assert run_cli(*SEARCH, "--proxy", "params")[0] == 0
    process = subprocess.Popen(
        [sys.executable, "-m", "untrained", "report", "run", "--serve"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "report: run/report.html\n"
    line = process.stdout.readline()
    match = re.fullmatch(
        r"open http://127\.0\.0\.1:(\d+)/ in a browser; Ctrl-C stops the server\n", line
    )
    assert match is not None
    connection = HTTPConnection("127.0.0.1", int(match[1]), timeout=30)
    connection.request("GET", "/")
    assert connection.getresponse().read() == Path("run", "report.html").read_bytes()
    connection.close()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "", "")
