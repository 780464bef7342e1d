#!/usr/bin/env python3
"""Opens the pages with pictures in a browser: the heap (flame graph, treemap, tables, growth), the path from a root to a freed block, and
the parts of a finding in a narrow window. Closing line: N passed, N failed.

Each page is opened 1,280 and 400 points wide, light and dark, with and without its script. Its numbers are those of the JSON output.
"""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Graph import holders  # noqa: E402
from Support import builds  # noqa: E402
from Support.browser import Browser  # noqa: E402
from Support.checks import run_driver, run_within  # noqa: E402
from Support.environment import ROOT, TESTS, ZGUARD, guarded_by, scrubbed  # noqa: E402
from Support.pages import contrast_problems, look, text_problems  # noqa: E402

BUILD = builds.BUILD / "graph"
TRIES = 5
TIMEOUT_SECONDS = 120
CARTS, MORE = 200, 300
CART_BYTES = 88

# Titles of flame graph boxes that leave their caller's box or cover the previous box.
OUTSIDE = """[...document.querySelectorAll('.flame .fb .fb')].filter(b => b.checkVisibility()).map(b => {
    const place = e => [...e.children].find(c => c.tagName === 'rect').getBoundingClientRect();
    const own = place(b), above = place(b.parentNode);
    let before = b.previousElementSibling;
    const left = before && before.tagName === 'svg' && before.checkVisibility() ? place(before).right : above.left;
    return own.left < left - 1 || own.right > above.right + 1 || Math.abs(own.top - above.bottom) > 2
        ? b.querySelector('title').textContent : null;
  }).filter(Boolean)"""
# The areas of the boxes of the visible treemap, by name.
AREAS = """Object.fromEntries([...document.querySelectorAll('.tm')].filter(e => e.checkVisibility()).flatMap(m =>
    [...m.querySelectorAll('.tb')].map(b => { const r = b.querySelector('rect').getBoundingClientRect();
      return [b.querySelector('title').textContent.split(' · ')[0], r.width * r.height]; })))"""


def build():
    BUILD.mkdir(parents=True, exist_ok=True)
    source, program = TESTS / "Graph/Programs/growing.cpp", BUILD / "growing"
    return builds.compiled(program, ["g++", "-std=c++17", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-o", program, source], [source], cwd=BUILD)


class Growing:
    """Runs growing.cpp, guarded. The program ends with the `with` block."""

    def __enter__(self):
        self.process = subprocess.Popen([build()], env=guarded_by(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def grow(self, count):
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "more\n"

    def heap(self, *words):
        code, out, err = run_within(TIMEOUT_SECONDS, [ZGUARD, "heap", self.process.pid, *words], env=scrubbed())
        assert code == 0 and not err, err
        return out


def opened(test):
    def run(directory):
        browser = Browser()
        try:
            test(Path(directory), browser)
        finally:
            browser.close()
    return run


def written(directory, name, text):
    page = directory / name
    page.write_text(text)
    return page


def expect(problems):
    assert not problems, "\n".join(str(problem) for problem in problems)


def check_everywhere(browser, directory, page):
    """Opens a page in both widths, light and dark, and checks that flame graph boxes are within their callers' boxes."""
    expect(text_problems(page))
    for width in (1280, 400):
        for dark in (False, True):
            problems, _ = look(browser, directory, f"{page.stem}-{width}-{dark}", page, width=width, dark=dark)
            expect(problems)
            expect(browser.evaluate(OUTSIDE))
            expect(contrast_problems(browser))
            wide = browser.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"{wide} points wide when all is open"


def rows(browser, section):
    """The cells of a table."""
    return browser.evaluate(f"[...document.querySelectorAll('#{section} tbody tr')].map(r => [...r.cells].map(c => "
                            "(c.querySelector('summary') || c).textContent.trim()))")


def grouped(number):
    return f"{number:,}"


@opened
def heap_page(directory, browser):
    with Growing() as program:
        heap = json.loads(program.heap("--format", "json"))
        page = written(directory, "heap.html", program.heap("--format", "html"))
    check_everywhere(browser, directory, page)
    browser.open(page)
    root = browser.evaluate("document.querySelector('.flame .fb title').textContent")
    assert f"{grouped(heap['blocks'])} blocks" in root and "100 % of all" in root, root
    cart = next(row for row in heap["classes"] if row.get("class") == "Cart<script>")
    assert (cart["blocks"], cart["bytes"]) == (CARTS, CARTS * CART_BYTES), cart
    assert [grouped(CARTS), "17.2 KiB", "Cart<script>"] in rows(browser, "classes"), rows(browser, "classes")
    assert len(rows(browser, "classes")) == len(heap["classes"]) and len(rows(browser, "sizes")) == len(heap["sizes"])
    assert browser.evaluate("document.querySelectorAll('script').length") == 1
    titles = browser.evaluate("[...document.querySelectorAll('.flame .fb > title')].map(e => e.textContent)")
    box = next(title for title in titles if title.startswith("open_cart()"))
    assert any(title.startswith("growing.cpp:") and "17.2 KiB" in title for title in titles), titles
    assert f"· 17.2 KiB · {CARTS} blocks ·" in box, box
    for width in (1280, 400):
        browser.open(page, width=width)
        areas = browser.evaluate(AREAS)
        whole, total = sum(areas.values()), sum(row["bytes"] for row in heap["classes"])
        for row in heap["classes"]:
            share = areas[row.get("class") or f"({row['family']})"] / whole
            assert abs(share - row["bytes"] / total) < 0.01, f"{row}: {share:.3f} of the area, at {width}"


@opened
def growth_page(directory, browser):
    saved, again = directory / "before.json", directory / "again.json"
    with Growing() as program:
        program.heap("--save", saved)
        program.grow(MORE)
        heap = json.loads(program.heap("--since", saved, "--save", again, "--format", "json"))
        page = written(directory, "growth.html", program.heap("--since", saved, "--format", "html"))
        program.grow(1)
        third = json.loads(program.heap("--since", again, "--format", "json"))
        text = program.heap("--since", again)
    check_everywhere(browser, directory, page)
    cart = next(row for row in heap["classes"] if row.get("class") == "Cart<script>")
    assert (cart["blocks_grown"], cart["blocks_survived"]) == (MORE, CARTS), cart
    assert [age["blocks"] for age in heap["ages"]][1] >= MORE and sum(age["blocks"] for age in heap["ages"]) == heap["blocks"], heap["ages"]
    assert "members" not in heap["ages"][0]
    # The third call of `zguard heap` distinguishes blocks first seen by the first call from those first seen by the second.
    ages = [age["blocks"] for age in third["ages"]]
    assert len(ages) == 3 and CARTS + 50 + 25 <= ages[0] <= CARTS + 50 + 60 and ages[1] == MORE and ages[2] == 1, ages
    assert "first seen\n" in text and ", or older\n" in text and re.search(r"^ +1 +\d+ B  now$", text, re.M), text
    browser.open(page)
    row = next(row for row in rows(browser, "classes") if row[-1] == "Cart<script>")
    assert row == [grouped(CARTS + MORE), "43.0 KiB", f"+{MORE}", "+25.8 KiB", str(CARTS), "Cart<script>"], row
    assert [row[:2] for row in rows(browser, "ages")][1][0] == grouped(heap["ages"][1]["blocks"]), rows(browser, "ages")
    assert browser.evaluate("document.querySelectorAll('.tm.wide .grown title')[0].textContent").startswith("Cart<script> · 43.0 KiB (+25.8 KiB)")
    # The width of a box is the growth.
    width = "document.querySelector('.flame').querySelectorAll('.fb')[1].getAttribute('width')"
    assert browser.evaluate(width) == "100%" and browser.evaluate("document.querySelector('[aria-pressed=true]').textContent") == "growth"
    # No block of this process can have survived from a file that was saved of another process, so the output has no ages.
    with Growing() as other:
        assert "ages" not in json.loads(other.heap("--since", saved, "--format", "json"))
    described = json.loads((ROOT / "docs/heap.schema.json").read_text())
    for one in (heap, third, json.loads(saved.read_text())):
        assert set(one) <= set(described["properties"]), set(one) - set(described["properties"])
        for part in ("classes", "stacks", "ages"):
            known = described["properties"][part]["items"]["properties"]
            assert all(set(row) <= set(known) for row in one.get(part, [])), part


@opened
def keys_and_search(directory, browser):
    with Growing() as program:
        page = written(directory, "keys.html", program.heap("--format", "html"))
    browser.open(page)
    focus = "(document.activeElement.querySelector(':scope > title') || {}).textContent || ''"

    def press(key):
        browser.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, text="\r" if key == "Enter" else "")
        browser.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key)
        return browser.evaluate(focus)

    assert browser.evaluate("document.querySelector('.flame').getAttribute('role')") == "tree"
    assert browser.evaluate("document.querySelectorAll('.flame [tabindex=\"0\"]').length") == 1
    browser.evaluate("document.querySelector('.flame [tabindex=\"0\"]').focus()")
    outer = press("ArrowDown")
    assert outer.startswith("main"), outer
    first = press("ArrowDown")
    second = press("ArrowRight")
    assert first != second and press("ArrowLeft") == first, (first, second)
    up = press("ArrowUp")
    assert up.startswith("main"), (first, second, up)
    press("ArrowDown")
    press("ArrowRight")
    part = browser.evaluate("document.activeElement.getBoundingClientRect().width")
    assert press("Enter") == second
    whole = browser.evaluate("document.querySelector('.flame').getBoundingClientRect().width")
    assert part < whole - 10 and abs(browser.evaluate("document.activeElement.getBoundingClientRect().width") - whole) < 1
    expect(browser.evaluate(OUTSIDE))
    assert browser.evaluate("document.querySelector('.fi').textContent") == second
    press("Escape")
    assert abs(browser.evaluate("document.activeElement.getBoundingClientRect().width") - part) < 1
    names = browser.call("Accessibility.getFullAXTree")["nodes"]
    items = [node["name"]["value"] for node in names if node.get("role", {}).get("value") == "treeitem"]
    assert any(name.startswith("open_cart() · 17.2 KiB") for name in items), items
    assert any(node.get("role", {}).get("value") in ("image", "img") and "Treemap" in node["name"]["value"] for node in names)
    search = """(text => { const box = document.querySelector('.fq'); box.value = text; box.dispatchEvent(new Event('input'));
                return [document.querySelector('.fn').textContent, document.querySelectorAll('.fb.hit').length]; })"""
    said, count = browser.evaluate(f"{search}('OPEN_cart')")
    assert count == 1 and said.startswith("1 call, "), (said, count)
    assert browser.evaluate(f"{search}('')") == ["", 0]
    before = browser.evaluate("[...document.querySelectorAll('.fb')].map(b => b.getAttribute('width'))")
    browser.evaluate("[...document.querySelectorAll('.fm')].find(b => b.textContent === 'blocks').click()")
    after = browser.evaluate("[...document.querySelectorAll('.fb')].map(b => b.getAttribute('width'))")
    assert before != after and browser.evaluate("document.querySelector('[aria-pressed=true]').textContent") == "blocks"
    expect(browser.evaluate(OUTSIDE))
    browser.open(page, script=False)
    assert not browser.evaluate("document.querySelector('.ft').checkVisibility()"), "controls that do nothing are shown"
    assert browser.evaluate("document.querySelector('.flame').getAttribute('role')") == "img"
    expect(browser.evaluate(OUTSIDE))
    assert len(rows(browser, "stacks")) >= 3


def path_of(browser, directory, report, name):
    _, text, _ = run_within(TIMEOUT_SECONDS, [ZGUARD, "report", report, "--format", "html"], env=scrubbed())
    page = written(directory, name, text)
    check_everywhere(browser, directory, page)
    return browser.evaluate("[...document.querySelectorAll('.path li')].map(e => [e.className, e.innerText.trim().split('\\n').slice(0, 2).join(' ')])")


@opened
def paths(directory, browser):
    """The picture shows the path from a root through each object to the freed block."""
    # On a busy machine the search for the path may reach its time limit.
    for _ in range(TRIES):
        finding, _ = holders.first_finding(directory, holders.build_swift("-Onone"), "property")
        if "path" in finding["holders"][0]:
            break
    places = [step["where"] for step in finding["holders"][0]["path"]]
    assert places[-1] in ("global", "stack") and "element" in places, places
    path = path_of(browser, directory, directory / "report.jsonl", "swift.html")
    assert path[0][0].startswith("root") and path[-1][0] == "freed" and path[-1][1].startswith("freed"), path
    assert ["object", "Feed .listener"] in path and any("[element]" in text for _, text in path), path
    finding, _ = holders.first_finding(directory, holders.build_c("-O0"), "global")
    assert "path" not in finding["holders"][0], finding["holders"]
    path = path_of(browser, directory, directory / "report.jsonl", "c.html")
    assert [text for _, text in path] == ["global (holders) current", "freed block of 200 bytes"], path


@opened
def narrow(directory, browser):
    """In a narrow window no word of a finding's details breaks after each letter, and no picture of a block is cut."""
    report = directory / "report.jsonl"
    run_within(TIMEOUT_SECONDS, [ZGUARD, "run", "--collect", "crashes", "-o", "scan_ms=0", "--report", report, "--", holders.build_c("-O0"),
                                 "global", "write"], env=scrubbed())
    _, text, _ = run_within(TIMEOUT_SECONDS, [ZGUARD, "report", report, "--format", "html"], env=scrubbed())
    assert "<dt>registers</dt>" in text, "the finding has no registers"
    page = written(directory, "narrow.html", text)
    check_everywhere(browser, directory, page)
    browser.open(page, width=400)
    tall = browser.evaluate("[...document.querySelectorAll('.meta dt')].filter(e => e.getBoundingClientRect().height > 25).map(e => e.textContent)")
    expect(tall)
    cut = browser.evaluate("""[...document.querySelectorAll('.bp')].filter(e => e.checkVisibility()).flatMap(picture => {
        const whole = picture.getBoundingClientRect();
        return [...picture.querySelectorAll('text, rect')].map(e => e.getBoundingClientRect())
            .filter(r => r.left < whole.left - 1 || r.right > Math.min(whole.right, innerWidth) + 1).map(r => `${r.left} to ${r.right}`); })""")
    expect(cut)
    assert browser.evaluate("[...document.querySelectorAll('.bp')].filter(e => e.checkVisibility()).length") == 1
    # A finding that was seen twice concerns different blocks, so its text has no address.
    both = directory / "both.jsonl"
    line = report.read_text().splitlines()[0]
    both.write_text(line + "\n" + line + "\n")
    _, text, _ = run_within(TIMEOUT_SECONDS, [ZGUARD, "report", both, "--format", "html"], env=scrubbed())
    said = re.findall(r'<span class="say">(.*?)</span><', text)
    assert said and "×2" in text and " at 0x" not in said[0], said


def watch(directory):
    """zguard stats --watch shows the classes that grow fastest, and does not stop the process."""
    with Growing() as program:
        watched = subprocess.Popen([ZGUARD, "stats", str(program.process.pid), "--watch", "0.1"], env=scrubbed(), stdout=subprocess.PIPE, text=True)
        try:
            lines = iter(watched.stdout.readline, "")
            assert any("no class has grown since the watch began" in line for line in lines)
            program.grow(MORE)
            deadline = time.monotonic() + TIMEOUT_SECONDS
            for line in lines:
                assert time.monotonic() < deadline
                if line.rstrip().endswith("Cart<script>"):
                    break
            assert line.split()[0] == str(CARTS + MORE) and f"+{MORE}" in line and "+25.8 KiB" in line, line
            state = Path(f"/proc/{program.process.pid}/status").read_text()
            assert "TracerPid:\t0" in state
        finally:
            watched.kill()
            watched.communicate()
        code, out, _ = run_within(TIMEOUT_SECONDS, [ZGUARD, "stats", program.process.pid], env=scrubbed())
        assert code == 0 and "has grown" not in out, out


def tests():
    yield "heap page", heap_page
    yield "growth page", growth_page
    yield "keys and search", keys_and_search
    yield "paths from a root", paths
    yield "narrow windows", narrow
    yield "stats --watch", watch


if __name__ == "__main__":
    sys.exit(run_driver(__doc__, tests, "zguard-pictures-"))
