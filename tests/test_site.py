"""The documentation site: it is built strictly, requests nothing from elsewhere, and can be searched as files."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from untrained.cli.reference_pages import PAGES

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference"


@pytest.mark.parametrize("name", PAGES)
def test_generated_pages_are_up_to_date(name):
    assert (REFERENCE / f"{name}.md").read_text() == PAGES[name](), "run `make docs`"


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """What `make site` builds. A broken link, a missing anchor or a page outside the navigation is an error."""
    pytest.importorskip("mkdocs", reason="the extra docs is not installed")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,  # the promise is that it takes less than five minutes
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class Requests(HTMLParser):
    """Collects what a browser loads with a page, without following a link."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag in ("script", "img", "iframe", "source", "video"):
            self.addresses.append(values.get("src") or "")
        elif tag == "link" and values.get("rel") not in ("canonical", "next", "prev"):
            self.addresses.append(values.get("href") or "")


def test_no_page_requests_anything_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        requests = Requests()
        requests.feed(page.read_text())
        assert len(requests.addresses) > 3
        external = [address for address in requests.addresses if re.match(r"\w+:|//", address)]
        external = [address for address in external if not address.startswith("data:")]
        assert not external, page
    for style in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", style.read_text()), style


def test_the_first_page_has_one_command_one_picture_and_three_things_to_do(site):
    article = (site / "index.html").read_text().partition("<article")[2].partition("</article")[0]
    beginning = re.sub(r"<[^>]+>", "", article.partition("<h2")[0])
    assert beginning.count("untrained search ") == 1
    assert article.count("<img") == 1
    things = re.findall(r"<h2[^>]*>(\d)\. ", article)
    assert things == ["1", "2", "3"]


def test_every_public_function_has_a_reference(site):
    import untrained

    page = (site / "reference" / "api.html").read_text()
    for name in untrained.__all__:
        assert re.search(rf'id="untrained\.(\w+\.)*{name}"', page), name


def test_the_search_index_contains_the_words_of_the_pages(site):
    index = json.loads((site / "search" / "search_index.json").read_text())
    texts = {entry["location"]: entry["title"] + entry["text"] for entry in index["docs"]}
    assert "gradsign" in texts["reference/proxies.html#gradsign"]
    assert "--max-latency" in texts["reference/commands.html#search"]


@pytest.mark.browser
def test_search_works_in_pages_that_are_opened_as_files(site, browser):
    """The first page, opened without a server: typing a word lists pages that contain it, and nothing fails."""
    page = browser.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on(
        "request",
        lambda request: problems.append(request.url) if "file:" not in request.url else None,
    )
    page.goto((site / "index.html").as_uri())
    page.click(".md-search__input")
    page.locator(".md-search__input").press_sequentially("gradsign")
    link = page.wait_for_selector(".md-search-result__link", timeout=20_000)
    assert "reference/proxies.html" in (link.get_attribute("href") or "")
    assert not [problem for problem in problems if not problem.startswith("data:")]
    page.close()


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_pages_are_no_wider_than_a_desktop_and_a_phone(site, browser, width):
    """Wide tables and code scroll by themselves; the page must not scroll sideways."""
    page = browser.new_page(viewport={"width": width, "height": 800})
    names = [
        "index.html",
        "tutorials/photos.html",
        "tutorials/own-space.html",
        "how-to/tables.html",
        "reference/api.html",
        "reference/commands.html",
        "reference/proxies.html",
        "results/consensus.html",
    ]
    for name in names:
        page.goto((site / name).as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        # Pictures have arrived, and the text is not squeezed into a narrow column.
        broken = "[...document.images].filter(i => i.complete && !i.naturalWidth).length"
        assert page.evaluate(broken) == 0, name
        text_width = page.evaluate("document.querySelector('article').clientWidth")
        assert text_width >= min(width, 700) - 80, name
    page.close()
