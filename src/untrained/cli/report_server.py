"""Serve the report of a run on this machine, for a browser that cannot open the file itself.

The server has one page and reads one file. It listens on the loopback interface only. It refuses
requests for other host names, because the owner of a web page can let a host name point to this
machine and then read what it serves (DNS rebinding).
"""

import os
import stat
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from untrained.errors import UsageError

HOST = "127.0.0.1"
_HOST_NAMES = (HOST, "localhost")
_PAGE_PATHS = ("/", "/report.html")
# A client that sends nothing is disconnected after this time.
_TIMEOUT_SECONDS = 30.0


class ReportServer(ThreadingHTTPServer):
    """Serves the report of one run folder.

    Args:
        page: The file `report.html`.
        port: The port; 0 for a free one.
        update: Called before the page is read.

    Raises:
        UsageError: The port is in use, or this user may not open it.
    """

    daemon_threads = True
    # Otherwise another process could listen on a port that is in use.
    allow_reuse_address = False

    def __init__(
        self, page: Path, port: int = 0, update: Callable[[], object] | None = None
    ) -> None:
        self.page = page
        self.update = update
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError) as error:
            raise UsageError(
                f"port {port} cannot be used: {error}; leave out --port for a free one"
            ) from error

    @property
    def address(self) -> str:
        """The address to open in a browser."""
        return f"http://{HOST}:{self.server_port}/"


class _Handler(BaseHTTPRequestHandler):
    server: ReportServer
    timeout = _TIMEOUT_SECONDS
    # Do not reveal the version of Python.
    server_version = "untrained"
    sys_version = ""

    def do_GET(self) -> None:
        self._answer(has_body=True)

    def do_HEAD(self) -> None:
        self._answer(has_body=False)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing: the page reloads every few seconds."""

    def _answer(self, has_body: bool) -> None:
        """Send the page, or an error.

        Args:
            has_body: Whether the page itself is sent, or only the headers.
        """
        host_name, _, port = self.headers.get("Host", "").rpartition(":")
        if host_name not in _HOST_NAMES or port != str(self.server.server_port):
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
            return
        # The path is only compared and never opened, so no request can read another file.
        if self.path not in _PAGE_PATHS:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        try:
            if self.server.update is not None:
                self.server.update()
            content = read_page(self.server.page)
        except (OSError, UsageError):
            self.send_error(HTTPStatus.NOT_FOUND, "There is no report")
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        if has_body:
            self.wfile.write(content)


def read_page(path: Path) -> bytes:
    """Read a page that is a file itself, not a link to a file outside the run folder.

    Raises:
        OSError: There is no such file, or it is something else.
    """
    # Without O_NONBLOCK, opening a named pipe would wait forever.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is not a file")
        return file.read()
