"""Checks of self-contained HTML pages: what they refer to, and how a browser shows them."""

import base64
import hashlib
import re

from Support.browser import colours

CONTRAST = """(() => {
  const probe = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgb = c => { probe.clearRect(0, 0, 1, 1); probe.fillStyle = c; probe.fillRect(0, 0, 1, 1);
                     return [...probe.getImageData(0, 0, 1, 1).data]; };
  const light = c => { const [r, g, b] = c.map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
                       return .2126 * r + .7152 * g + .0722 * b; };
  const ground = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor);
                        if (c[3] === 255) return c; } return [255, 255, 255, 255]; };
  const worst = {};
  for (const e of document.querySelectorAll('body *')) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) || !e.checkVisibility()) continue;
    if (e.closest('script,style')) continue;
    const on = e.matches('.on') ? rgb(getComputedStyle(document.querySelector('.hit')).fill) : ground(e);
    const style = getComputedStyle(e), text = rgb(e.closest('svg') ? style.fill : style.color);
    const [a, b] = [light(text), light(on)], ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    const name = e.tagName.toLowerCase() + '.' + (e.getAttribute('class') || '');
    if (!(worst[name] <= ratio)) worst[name] = ratio;
  }
  return worst;
})()"""


def text_problems(page):
    """Returns what makes a page depend on other files, or lets text of a report act as markup or script."""
    text = page.read_text()
    body = re.sub(r"<(style|script)>.*?</\1>", "", text, flags=re.DOTALL)
    problems = [f"refers to {link}" for link in re.findall(r'(?:src|href|action)="([^"]*)"', body)
                if not re.match(r"#|data:,$", link)]
    problems += [f"style refers to {link}" for link in re.findall(r"url\(([^)]*)\)|@import", text) if link != "#hatch"]
    for kind in ("style", "script"):
        (allowed,) = re.findall(rf"{kind}-src ([^;]*);", text)
        for content in re.findall(f"<{kind}>(.*?)</{kind}>", text, re.DOTALL):
            coded = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
            if f"'sha256-{coded}'" not in allowed.split():
                problems.append(f"the policy does not name a {kind}, whose digest is {coded}")
    if "default-src 'none'" not in text or "unsafe" in text.split("</head>")[0]:
        problems.append("the policy allows more than it should")
    if re.search(r" on\w+=|javascript:| style=", re.sub(r">[^<]*<", "><", body)):
        problems.append("a handler or style in a tag")
    controls = {hex(ord(c)) for c in text if ord(c) < 32 and c != "\n" or c in "\u202e\u2028\u200f\x7f\x9b"}
    return problems + [f"control character {control}" for control in sorted(controls)]


def look(browser, pictures, name, page, **how):
    """Opens the page, and leaves a screenshot in a directory. Returns its problems, and how often each color occurs."""
    seconds = browser.open(page, **how)
    png = browser.picture()
    (pictures / f"{name}.png").write_bytes(png)
    found = colours(png)
    problems = [f"requests {url}" for url in browser.requests if url != f"file://{page}" and not url.startswith("data:,")]
    problems += [f"console: {complaint}" for complaint in browser.complaints]
    total, common = sum(found.values()), max(found.values())
    if len(found) < 24:
        problems.append(f"only {len(found)} colours")
    if not 0.02 < 1 - common / total:
        problems.append("the picture is blank")
    if browser.evaluate("document.documentElement.scrollWidth > innerWidth"):
        problems.append("the page scrolls sideways")
    if seconds > 5:
        problems.append(f"{seconds:.1f} seconds to load")
    return problems, found


def contrast_problems(browser):
    """Returns texts of the open page that are hard to read on their background: a contrast of less than 4.5 (WCAG 2.1, AA)."""
    browser.evaluate("[...document.querySelectorAll('details')].slice(0, 60).forEach(e => e.open = true)")
    return [f"{name}: {ratio:.1f}" for name, ratio in browser.evaluate(CONTRAST).items() if ratio < 4.5]
