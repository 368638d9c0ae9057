"""Run the tutorials in docs/tutorials/, and write their outputs and pictures into the pages.

    python dev/tutorials.py              all tutorials
    python dev/tutorials.py own-proxy    one of them

A tutorial is a Markdown page whose code blocks are run in order, in an empty folder:

- A block with the name of a file as title is written to that file.
- `python` blocks run in one session, `bash` blocks are commands. A `bash` block with a title is meant
  for another machine and not run.
- A `text` block with a title that begins with "Output" holds what the blocks since the last output
  printed. "Output, first 5 lines" holds a part of it; "Output, last 5 lines" may follow.
- "Output of one run" holds what differs from run to run, such as which network won.
- A comment before a picture says where it comes from: `<!-- picture: runs/mine/report.html 900x700 -->`
  is a screenshot of that page, `<!-- picture: cell.svg -->` a copy of that file.

This program writes outputs and pictures. `tests/test_tutorials.py` runs the pages too, and checks that
the outputs still have the same form.
"""

import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "tutorials"
WIDTH = "100"  # columns of the terminal

_BLOCK = re.compile(
    r"^```(?P<language>\w+)(?: title=\"(?P<title>[^\"]*)\")?\n(?P<content>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
_PICTURE = re.compile(
    r"<!-- picture: (?P<source>\S+)(?: (?P<width>\d+)x(?P<height>\d+))? -->\n+"
    r"!\[[^]]*\]\((?P<path>[^)]+)\)"
)
_FILE_NAME = re.compile(r"[\w./-]+\.\w+")
_PART = re.compile(r"Output(?: of one run)?, (first|last) (\d+) lines")


# ------------------------------------------------------------------------------------- pages


@dataclass(frozen=True)
class Block:
    """A code block of a page.

    Attributes:
        language: What follows the three backticks.
        title: The title; empty if there is none.
        content: The lines of the block.
    """

    language: str
    title: str
    content: str

    @property
    def is_file(self) -> bool:
        return _FILE_NAME.fullmatch(self.title) is not None

    @property
    def is_output(self) -> bool:
        return self.language == "text" and self.title.startswith("Output")

    @property
    def is_run(self) -> bool:
        return self.language in ("python", "bash") and not self.title


@dataclass(frozen=True)
class Picture:
    """A picture that a tutorial makes.

    Attributes:
        source: The file in the folder of the tutorial that it comes from.
        path: The file that the page shows, relative to the page.
        size: Width and height of a screenshot in pixels; None for a copy.
    """

    source: str
    path: str
    size: tuple[int, int] | None


def read_blocks(page: str) -> list[Block]:
    """Return the code blocks of a page in order."""
    blocks = []
    for match in _BLOCK.finditer(page):
        blocks.append(Block(match["language"], match["title"] or "", match["content"]))
    return blocks


def read_pictures(page: str) -> list[Picture]:
    """Return the pictures that a page makes."""
    pictures = []
    for match in _PICTURE.finditer(page):
        size = None
        if match["width"]:
            size = (int(match["width"]), int(match["height"]))
        pictures.append(Picture(match["source"], match["path"], size))
    return pictures


def cut_output(block: Block, printed: str) -> str:
    """Return the part of an output that a block shows, without colours and trailing spaces."""
    lines = [line.rstrip() for line in printed.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    part = _PART.fullmatch(block.title)
    if part:
        count = int(part[2])
        lines = lines[:count] if part[1] == "first" else lines[-count:]
    return "\n".join(lines) + "\n"


# ----------------------------------------------------------------------------------- running


def run_page(page: Path, folder: Path) -> list[str]:
    """Run a page in a folder, in a process of its own.

    Returns:
        What each output block must show, in order.

    Raises:
        RuntimeError: A block failed.
    """
    environment = os.environ | {
        "COLUMNS": WIDTH,
        "NO_COLOR": "1",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "UNTRAINED_DATA": str(folder / ".data"),
        "XDG_CACHE_HOME": str(folder / ".cache"),
    }
    process = subprocess.run(
        [sys.executable, __file__, "--run", page],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    if process.returncode:
        raise RuntimeError(f"{page.name} failed:\n{process.stdout}\n{process.stderr}")
    outputs: list[str] = json.loads((folder / ".outputs.json").read_text())
    return outputs


def run_blocks(page: Path) -> None:
    """Run the blocks of a page in the working directory and save the outputs."""
    sys.path.insert(0, os.getcwd())
    session: dict[str, Any] = {"__name__": "__main__"}
    printed = ""
    is_shown = False
    outputs = []
    for block in read_blocks(page.read_text()):
        if block.is_file:
            Path(block.title).write_text(block.content)
        elif block.is_output:
            # The temporary folder has another name on every run.
            outputs.append(cut_output(block, printed.replace(os.getcwd(), ".")))
            is_shown = True
        elif block.is_run:
            if is_shown:
                printed = ""
                is_shown = False
            printed += run_block(block, session)
    Path(".outputs.json").write_text(json.dumps(outputs))
    # After a page has shut down a Ray cluster, threads of Ray may block the end of the interpreter.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def run_block(block: Block, session: dict[str, Any]) -> str:
    """Run a block and return what it printed."""
    if block.language == "python":
        stream = io.StringIO()
        with redirect_stdout(stream):
            exec(compile(block.content, "<tutorial>", "exec"), session)
        return stream.getvalue()
    printed = ""
    commands = block.content.replace("\\\n", " ")
    for command in commands.splitlines():
        if command.strip():
            printed += run_command(command)
    return printed


def run_command(command: str) -> str:
    """Run one command and return what it printed on its standard output."""
    words = shlex.split(command)
    if words[0] == "untrained" and not {"|", ">", "&&"}.intersection(words):
        return run_untrained(words)
    process = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    if process.returncode:
        raise RuntimeError(f"`{command}` failed:\n{process.stdout}\n{process.stderr}")
    return process.stdout


def run_untrained(words: list[str]) -> str:
    """Run the program in this process, because starting Python with torch takes seconds."""
    from untrained.cli.app import main

    sys.argv = words
    stream = io.StringIO()
    with redirect_stdout(stream):
        try:
            main()
        except SystemExit as end:
            if end.code:
                raise RuntimeError(f"`{shlex.join(words)}` failed") from end
    return stream.getvalue()


# ----------------------------------------------------------------------------------- writing


def write_outputs(page: Path, outputs: list[str]) -> None:
    """Replace the contents of the output blocks of a page."""
    remaining = list(outputs)

    def replace_content(match: re.Match[str]) -> str:
        block = Block(match["language"], match["title"] or "", match["content"])
        if not block.is_output:
            return match[0]
        return f'```text title="{block.title}"\n{remaining.pop(0)}```'

    page.write_text(_BLOCK.sub(replace_content, page.read_text()))


def write_picture(page: Path, picture: Picture, folder: Path) -> None:
    """Copy a picture that a tutorial made, or take a screenshot of a page that it wrote."""
    target = page.parent / picture.path
    source = folder / picture.source
    if picture.size is None:
        shutil.copy(source, target)
        return
    from PIL import Image
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    width, height = picture.size
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": width, "height": height}, device_scale_factor=1.5)
        tab.goto(source.resolve().as_uri())
        tab.screenshot(path=target)
        browser.close()
    # 64 colours are enough for a report, and take a third of the bytes.
    Image.open(target).convert("RGB").quantize(64).save(target, optimize=True)


def update_page(page: Path) -> None:
    """Run a tutorial and write its outputs and pictures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_outputs(page, run_page(page, folder))
        for picture in read_pictures(page.read_text()):
            write_picture(page, picture, folder)


def main() -> None:
    """Update the tutorials that are named, or all of them."""
    words = sys.argv[1:]
    if words[:1] == ["--run"]:
        run_blocks(Path(words[1]))
        return
    names = words or sorted(page.stem for page in FOLDER.glob("*.md") if page.stem != "index")
    for name in names:
        print(name, flush=True)
        update_page(FOLDER / f"{name}.md")


if __name__ == "__main__":
    main()
