"""The page of the lease lab in a real browser: what a first-time reader sees, by mouse, by keyboard and on a phone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Route, expect

from planrun.web.lab_map import PARTS
from planrun.web.server import HttpServer, address_of, open_socket

pytestmark = [pytest.mark.slow, pytest.mark.needs("chromium"), pytest.mark.timeout(120)]

SHOWN_MS = 20_000
PHONE = {"width": 375, "height": 740}
TOKEN = "0123456789abcdef"
NO_RUN = re.compile(
    "/v1/lab[?]"
)  # a browser notes each answer that is no success; what the page says of it is tried here
OVERWROTE = re.compile(r"^At 14 s worker A \(token 33\).*expired at 10 s, overwrote.*worker B \(token 34\).*at 11 s")
TOO_OLD = re.compile(r"^At 14 s the store refused the late write of worker A \(token 33\)")
LOST = re.compile(r"^At 14 s the ledger refused worker A \(token 33\)")

Visit = Callable[..., Page]


@contextmanager
def served(folder: Path, *, token: str) -> Iterator[str]:
    listening = open_socket("127.0.0.1:0", is_guarded=False, is_secure=False)
    server = HttpServer(f"sqlite:///{folder}/ledger.db", listening, token=token)
    server.start()
    try:
        yield address_of(listening)
    finally:
        server.stop()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("lab"), token="") as address:
        yield address


@pytest.fixture
def visit(browser: Browser, address: str) -> Iterator[Visit]:
    """Opens the page; whatever goes wrong in it, or is refused by its policy, fails the test."""
    wrong: list[str] = []
    contexts: list[BrowserContext] = []

    def open_page(query: str = "", *, of: str = address, shown: str = "#events li", **options: object) -> Page:
        context = browser.new_context(**options)  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", noted)
        page.goto(f"{of}lab{query}")
        page.locator(shown).first.wait_for(timeout=SHOWN_MS)
        return page

    def noted(said: ConsoleMessage) -> None:
        if said.type == "error" and not NO_RUN.search(said.location["url"]):
            wrong.append(said.text)

    yield open_page
    for context in contexts:
        context.close()

    assert wrong == []


def says(page: Page, words: re.Pattern[str]) -> None:
    expect(page.locator("#sentence")).to_have_text(words, timeout=SHOWN_MS)


def lines(page: Page) -> list[str]:
    return [" ".join(text.split()) for text in page.locator("#events li:not(.minor)").all_inner_texts()]


def test_a_first_time_reader_sees_the_overwrite_and_what_prevents_it(visit: Visit) -> None:
    page = visit()
    says(page, OVERWROTE)
    story = lines(page)

    assert story[0].endswith("0 s Worker A Takes the lease with fencing token 33")
    assert any("10 s Ledger Worker A's lease (33) expires" in line for line in story)
    assert any("14 s Lab store Takes worker A's write (token 33) and overwrites" in line for line in story)
    expect(page.locator("#store-note")).to_contain_text("Lab store, not planrun’s")
    assert page.locator("#picture .mark.harm").count() == 1
    page.get_by_label("Fencing").check()
    says(page, TOO_OLD)
    page.get_by_label("A key for each attempt").check()
    says(page, LOST)
    expect(page.locator("#store-note")).to_contain_text("The store is planrun’s")
    expect(page.locator("#tally")).to_contain_text("0 overwritten")


def test_everything_can_be_done_with_the_keyboard_alone(visit: Visit) -> None:
    page = visit()
    says(page, OVERWROTE)
    keys = page.keyboard

    def to(selector: str) -> None:
        """Tab on until it has the focus."""
        for _ in range(40):
            if page.evaluate("one => document.activeElement.matches(one)", selector):
                return
            keys.press("Tab")
        raise AssertionError(f"{selector} cannot be reached")

    to("#fencing")
    keys.press("Space")
    says(page, TOO_OLD)
    to("#step")
    keys.press("Home")
    expect(page.locator("#step")).to_have_attribute("aria-valuetext", re.compile("^0 s, Ledger: Takes the job in"))
    keys.press("ArrowRight")
    expect(page.locator("#events .on")).to_contain_text("Takes the lease with fencing token 33")
    to("#for_s")
    keys.press("Home")
    says(page, re.compile("^Nobody took over"))
    to(".map:not(.tall) [data-part=ledger]")
    keys.press("Enter")
    expect(page.locator(".about:visible h3")).to_have_text("Ledger")
    page.locator("body").press("Tab")
    page.reload()
    page.locator("#events li").first.wait_for(timeout=SHOWN_MS)
    expect(page.locator(".about:visible h3")).to_have_text("Ledger")
    to("[name=preset]")
    keys.press("ArrowRight")
    says(page, re.compile(r"^(Worker A crashed|At )"))


def test_a_link_is_a_run(visit: Visit) -> None:
    page = visit("?preset=stalled&fencing=on&lease_s=8&seed=7")
    link = page.locator("#link").get_attribute("href") or ""
    again = visit(link.removeprefix("/lab"))

    assert "seed=7" in link and "lease_s=8" in link
    assert again.locator("#sentence").inner_text() == page.locator("#sentence").inner_text()
    assert lines(again) == lines(page)
    assert again.locator("#lease_s").input_value() == "8"
    expect(again.locator("#command")).to_have_text("planrun lab stalled --seed 7 --lease-s 8 --fencing on")


def test_a_phone_shows_all_of_it(visit: Visit) -> None:
    page = visit(viewport=PHONE, has_touch=True, color_scheme="dark", reduced_motion="reduce")
    says(page, OVERWROTE)
    page.locator(".map.tall [data-part=store]").tap()
    expect(page.locator(".about:visible h3")).to_have_text("Store")
    page.locator("label", has=page.locator("#fencing")).tap()
    says(page, TOO_OLD)

    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    assert page.locator("#picture svg").evaluate("one => one.getBoundingClientRect().right") <= PHONE["width"]
    assert page.locator(".mark circle").first.evaluate("one => getComputedStyle(one).transitionDuration") == "0s"


def test_the_map_says_of_each_part_what_it_does_and_owns(visit: Visit) -> None:
    page = visit()
    for part in PARTS:
        page.locator(f".map.wide [data-part={part.name}]").click()
        about = page.locator(".about:visible")
        expect(about).to_have_count(1)
        expect(about).to_contain_text(part.does)
        expect(about).to_contain_text(part.owns)
        assert ("Planned" in about.inner_text()) == (part.name in ("gateway", "log", "relay"))


def test_every_control_and_picture_has_a_name(visit: Visit) -> None:
    page = visit()
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("input, select, button, svg[role], section, nav, form")]
            .filter((one) => one.getClientRects().length)
            .filter((one) => !one.ariaLabel && !one.getAttribute("aria-labelledby"))
            .filter((one) => !one.labels?.length && !one.textContent.trim())
            .map((one) => one.outerHTML.slice(0, 80))"""
    )

    assert unnamed == []
    assert page.locator("h1").count() == 1


def test_it_plays_what_happened_step_by_step(visit: Visit) -> None:
    page = visit()
    page.get_by_role("button", name="Play").click()
    expect(page.locator("#events .on")).to_have_count(1)
    expect(page.locator("#events .later").first).to_be_attached()
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Play")).to_be_visible()


@pytest.mark.parametrize("is_offline", [True, False], ids=["no answer", "too busy"])
def test_where_no_run_comes_none_of_other_settings_stands_in_its_place(visit: Visit, is_offline: bool) -> None:
    page = visit()
    says(page, OVERWROTE)

    def busy(route: Route) -> None:
        route.fulfill(status=503, json={"detail": "others play in this lab"})

    if is_offline:
        page.context.set_offline(True)
    else:
        page.route(NO_RUN, busy)
    page.locator("#job_b_s").press("ArrowRight")
    expect(page.locator("#problem")).to_have_text(re.compile("does not answer" if is_offline else "others play"))
    for stale in ("#sentence", "#tally", "#picture", "#store-note", "#play", "#events", "#link", "#command"):
        expect(page.locator(stale)).to_be_hidden()
    assert top(page, "#problem") < top(page, "#fencing")

    page.context.set_offline(False)
    page.unroute(NO_RUN)
    page.get_by_role("button", name="Try again").click()
    says(page, re.compile(r"had stored at 11.1 s"))
    expect(page.locator("#sentence")).to_be_focused()
    expect(page.locator("#picture")).to_be_visible()
    expect(page.locator("#problem")).to_be_hidden()


def top(page: Page, selector: str) -> float:
    return float(page.locator(selector).evaluate("one => one.getBoundingClientRect().top"))


def test_a_server_with_tokens_asks_for_one_where_its_visitor_looks(visit: Visit, tmp_path: Path) -> None:
    with served(tmp_path, token=TOKEN) as address:
        page = visit(of=address, shown="#door", viewport=PHONE, has_touch=True)
        expect(page.locator("#problem")).to_have_text(re.compile("asks for a token"))
        expect(page.locator("#token")).to_be_focused()
        expect(page.locator("#token")).to_be_in_viewport()
        expect(page.locator("#play")).to_be_hidden()
        with page.expect_response(NO_RUN):
            page.locator("#fencing").press("Space")
        expect(page.locator("body")).to_have_class("failed")
        expect(page.locator("#fencing")).to_be_focused()
        page.locator("#token").fill("another")
        page.get_by_role("button", name="Go on").tap()
        expect(page.locator("#problem")).to_have_text(re.compile("does not know that token"))
        expect(page.locator("#token")).to_be_focused()
        page.locator("#token").fill(TOKEN)
        page.keyboard.press("Enter")
        says(page, TOO_OLD)
        expect(page.locator("#sentence")).to_be_focused()


def test_the_page_is_kept_apart_from_other_sites(address: str, tmp_path: Path, browser: Browser) -> None:
    """No page may put it in a frame."""
    (tmp_path / "thief.html").write_text(f'<iframe src="{address}lab"></iframe>')
    page = browser.new_page()
    page.goto(f"file://{tmp_path}/thief.html")
    page.wait_for_load_state("networkidle")

    assert "Who may write" not in (page.frames[-1].content())
    page.close()
