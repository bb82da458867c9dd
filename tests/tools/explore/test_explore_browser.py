"""The explorer's page in headless Chromium: links, search, keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import browser
from tests.tools.explore.test_explore import KERNELS, SIGNATURE, profile
from tritium.cli.explore import Other, explore

pytestmark = pytest.mark.chromium


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[browser.Page, Path]]:
    """A browser, and the file of the page that it shows to each test anew."""
    folder = tmp_path_factory.mktemp("explore")
    source, out, other = (folder / name for name in ("kernels.py", "page.html", "other.json"))
    source.write_text(KERNELS)
    explore([str(source)], other, "mean", "cpu:haswell", SIGNATURE)
    explore([str(source)], out, "mean", "cpu:znver4", SIGNATURE, profile=profile(folder),
            other=Other(str(other)))  # fmt: skip
    with browser.page(folder) as found:
        yield found, out


@pytest.fixture
def page(shown: tuple[browser.Page, Path]) -> browser.Page:
    shown[0].open(shown[1])
    return shown[0]


HOT = '[...document.querySelectorAll(".%s .hot")].map(e => e.textContent).join("\\n")'


def test_links_search_and_keys(page: browser.Page) -> None:
    page.wait('document.querySelectorAll(".stage.on .code div").length > 10')
    page.run('[...document.querySelectorAll(".source div")]'
             '.find(e => e.textContent.includes("(x + y) * 0.5")).click()')  # fmt: skip
    assert "arith.mulf" in page.run(HOT % "stage.on")
    assert page.run('document.querySelector(".stage.on").dataset.stage') == "source"
    page.key("2")
    page.wait('document.querySelector(".stage.on").dataset.stage === "ttir"')
    page.wait('document.querySelectorAll(".stage.on .hot").length > 0')
    assert "arith.mulf" in page.run(HOT % "stage.on") and "0.5" in page.run(HOT % "source")
    page.run('[...document.querySelectorAll(".stage.on div[data-l]")]'
             '.find(e => e.textContent.includes("tt.store")).click()')  # fmt: skip
    assert "tl.store(" in page.run(HOT % "source")
    page.key("Escape")
    assert page.run('document.querySelectorAll(".hot").length') == 0
    page.key("/")
    for letter in "STORE":
        page.key(letter)
    found = [
        (page.key("Enter"), page.run('document.querySelector(".found").textContent'))[1]
        for _ in range(3)
    ]
    assert "tl.store(" in found[0] and "tt.store" in found[1] and found[2] == found[0]
    assert page.run('document.querySelectorAll(".stage.on .err").length') == 0


CHOOSE = """(select => {
    select.value = %s;
    select.dispatchEvent(new Event("change", {bubbles: true}));
})(document.querySelector("%s"))"""


def test_tabs_the_other_run_and_the_profile(page: browser.Page) -> None:
    for name in ("passes", "layouts", "facts", "against"):
        page.run(f"document.querySelector('[data-panel={name}]').click()")
        panels = page.run('[...document.querySelectorAll(".panel.on")].map(e => e.dataset.name)')
        assert panels == [name]
    page.wait('document.querySelectorAll(".mine div").length > 10')
    assert page.run('document.querySelectorAll(".gone, .new").length') == 0  # of the first stage
    last = page.run('document.querySelector(".pairs").options.length') - 2
    page.run(CHOOSE % (last, ".pairs"))
    page.wait('document.querySelectorAll(".mine .gone").length > 5')
    assert page.run('document.querySelectorAll(".theirs.on .new").length') > 5
    page.run(CHOOSE % ("'figures'", ".pairs"))
    assert "haswell" in page.run('document.querySelector(".figures").innerText')
    page.run(CHOOSE % ("'profile'", "#kernels"))
    rows = '[...document.querySelectorAll(".tree tbody tr")].filter(e => e.offsetHeight).length'
    assert page.run(rows) == 3 and page.run('document.querySelectorAll("circle").length') == 1
    page.run('document.querySelector(".tree tbody tr").click()')
    assert page.run(rows) == 1
    page.key("3")  # there are no stages here
    page.run('document.querySelector(".tree tbody tr").click()')
    assert page.run(rows) == 3
