"""The service's page in a real browser: a picture is answered, attacked and watched, by mouse and by keyboard."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from alu import data
from tests.end_to_end.served import served

sync_api = pytest.importorskip("playwright.sync_api", reason="needs the package playwright (extra dev)")
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's package chromium")
expect = sync_api.expect
SLOW = 60_000.0
"""Milliseconds: the machine may be busy with other tests."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served("--playground") as at:
        yield at


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """The page; it must write nothing to the console and ask nobody but the service."""
    opened = browser.new_page(viewport={"width": 1200, "height": 900})
    opened.set_default_timeout(SLOW)
    said: list[str] = []
    asked: list[str] = []
    opened.on("console", lambda message: said.append(message.text))
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.on("request", lambda request: asked.append(request.url))
    opened.goto(address)
    expect(opened.locator("#samples button")).to_have_count(12, timeout=SLOW)
    yield opened
    opened.close()
    assert said == []
    outside = [url for url in asked if not url.startswith((address, "data:", "blob:"))]
    assert outside == []


def answered(page: Any, part: str, words: str) -> None:
    expect(page.locator(f"#{part}-answer")).to_contain_text(re.compile(words), timeout=SLOW)


def test_an_uploaded_picture_is_answered_then_attacked_flagged_and_monitored(page: Any, tmp_path: Path) -> None:
    test = data.sample("test")
    ship = next(place for place, label in enumerate(test.labels.tolist()) if test.classes[label] == "ship")
    file = tmp_path / "ship.png"
    # Larger than what the defence reads: the browser scales it.
    Image.fromarray(test.pixels[ship].permute(1, 2, 0).numpy()).resize((96, 64), Image.Resampling.NEAREST).save(file)
    page.set_input_files("#file", file)
    answered(page, "try", "lagged; state: ")
    before = page.request.get(f"{page.url.split('#')[0]}v1/monitor").json()["watched"]
    assert before >= 1
    page.click('#samples button:has(img[alt="ship"])')
    answered(page, "try", r"^ship\.")
    page.click("#tab-attack")
    page.click("#attack-run")
    answered(page, "attack", "True class: ship")
    expect(page.locator("#attack-answers tbody tr")).to_have_count(3)
    alone, defended, _ = (page.locator("#attack-answers tbody tr").nth(place) for place in range(3))
    expect(alone).to_contain_text("wrong")
    expect(defended).to_contain_text("flagged")
    expect(page.locator("#step-shown")).to_have_text("end", timeout=SLOW)
    page.click("#tab-monitor")
    answered(page, "monitor", "Evidence|Raised")
    counted = page.locator("#monitor-counts dd").first
    expect(counted).not_to_have_text("0")
    assert page.locator("#monitor-evidence path").count() == 1


def test_everything_can_be_reached_by_keyboard(page: Any) -> None:
    page.locator("#tab-try").focus()
    page.keyboard.press("Tab")  # the first bundled picture
    page.keyboard.press("Enter")
    answered(page, "try", r"^\w+\.")
    page.locator("#tab-try").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#tab-attack")).to_have_attribute("aria-selected", "true")
    assert page.evaluate("() => document.activeElement.id") == "tab-attack"
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("() => document.activeElement.id") == "attack-run":
            break
    page.keyboard.press("Enter")
    answered(page, "attack", "The attack|nothing to attack")
    page.locator("#step").focus()
    page.keyboard.press("Home")
    expect(page.locator("#step-shown")).to_have_text("0")


def test_a_link_brings_back_what_is_shown(page: Any, browser: Any) -> None:
    page.click('#samples button:has(img[alt="cat"])')
    page.click("#tab-attack")
    page.fill("#steps", "5")
    page.click("#attack-run")
    answered(page, "attack", "True class: cat")
    link = page.locator("#attack-link").evaluate("one => one.href")
    again = browser.new_page()
    again.goto(link)
    expect(again.locator("#attack-answer")).to_have_text(
        page.inner_text("#attack-answer").replace("\n", ""), timeout=SLOW
    )
    assert again.input_value("#steps") == "5"
    again.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_sticks_out_on_a_telephone(page: Any, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": 400, "height": 800})
    page.locator("#samples button").nth(3).click()
    answered(page, "try", r"^\w+\.")
    for part in ("try", "attack", "monitor"):
        page.click(f"#tab-{part}")
        wide = page.evaluate("() => document.documentElement.scrollWidth")
        assert wide <= 400, part


def test_what_is_no_picture_is_a_sentence(page: Any, tmp_path: Path) -> None:
    file = tmp_path / "words.txt"
    file.write_text("no picture")
    page.set_input_files("#file", file)
    expect(page.locator("#problem")).to_contain_text("cannot be read as a picture", timeout=SLOW)
