// Holds the style sheet and the script of the page of `zguard heap`, beyond the style of HTML reports. No meaning
// depends on color alone. The script zooms, searches, and switches whether the widths of boxes show bytes, blocks or
// growth; the page is readable without the script.

import ZombieGuard

enum HeapPageStyle {
    /// Tests/Graph/pictures.py prints the required digests.
    static let part = HTMLPage.Part(text, digest: "/evnYaoSJgIR/0HlBu2nGsWGC4cX6raj9m52INa2g0o=")
    static let script = HTMLPage.Part(scriptText, digest: "FrDJDKi4zU2ebX44C+COb01p/O/qw9O875La57+TYaY=")

    private static let text = """
        :root{--tb:#dfe6ee;--tg:#f6d3a5}
        @media(prefers-color-scheme:dark){:root{--tb:#2b3844;--tg:#644018}}
        .ft{display:flex;flex-wrap:wrap;align-items:center;gap:.4rem .6rem;margin-bottom:.4rem}.ft input{flex:0 1 15rem;min-width:0}
        .ft button[aria-pressed=true]{background:var(--ink);color:var(--bg)}.ft button:disabled{color:var(--mute);cursor:default}
        .ft output{color:var(--mute);font-size:.86rem}.ft .fz{margin-left:auto}
        .fb{cursor:pointer;outline:none}.fb.thin>rect{stroke:none}.fb.hit>rect{fill:var(--hl);stroke:var(--hit);stroke-width:2}
        .fb:focus-visible>rect{stroke:var(--link);stroke-width:3}.fb:hover>rect{stroke:var(--ink)}
        .fi{margin:.2rem 0 0;color:var(--mute);font-size:.86rem;min-height:1.5em}
        .tm{display:block}.tb rect{fill:var(--tb);stroke:var(--bg);stroke-width:2}.tb.grown rect{fill:var(--tg)}
        .tm .in{fill:var(--ink);opacity:.85}.tm.narrow{display:none}
        .ht{border-collapse:collapse;width:100%;margin:.4rem 0}.ht td,.ht th{padding:.2rem .9rem .2rem 0;text-align:left;vertical-align:top}
        .ht tr{border-bottom:1px solid var(--line)}.ht th{color:var(--mute);font-weight:600;font-size:.84rem}
        .ht .n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums;width:1%}
        .left{color:var(--mute);margin:.2rem 0}
        @media(max-width:600px){.fi{min-height:3em}.tm.wide{display:none}.tm.narrow{display:block}.ft .fz{margin-left:0}
        .ht tr{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:0 .6rem;padding:.25rem 0}.ht.h4 tr{grid-template-columns:repeat(4,minmax(0,1fr))}\
        .ht.h5 tr{grid-template-columns:repeat(5,minmax(0,1fr))}
        .ht thead,.ht tbody{display:block}.ht .n{width:auto}.ht td,.ht th{padding:0;font-size:.84rem}.ht td:last-child,.ht th:last-child{grid-column:1/-1}}
        """

    private static let scriptText = """
        (function () {
          "use strict";
          var flame = document.querySelector(".flame"), tools = document.querySelector(".ft");
          if (!flame) return;
          var find = tools.querySelector(".fq"), found = tools.querySelector(".fn"), out = tools.querySelector(".fz");
          var info = document.querySelector(".fi"), whole = flame.querySelector(".fb"), top = whole, measure = 0;
          var list = Array.prototype.slice.call(flame.querySelectorAll(".fb"));
          var buttons = Array.prototype.slice.call(tools.querySelectorAll(".fm"));
          function title(b) { return b.firstChild.textContent; }
          function inner(b) { return Array.prototype.filter.call(b.children, function (c) { return c.tagName === "svg"; }); }
          function place(b) {
            var p = b.dataset.p.split(" ");
            return [p[2 * measure], p[2 * measure + 1]];
          }
          function draw() {
            var above = [], rows = 0;
            for (var b = top; b !== flame; b = b.parentNode) above.push(b);
            (function each(b, room, row) {
              var p = place(b), isAbove = above.indexOf(b) >= 0, isBeside = !isAbove && above.indexOf(b.parentNode) > 0;
              var w = isAbove ? 100 : +p[1];
              b.setAttribute("x", (isAbove ? 0 : p[0]) + "%");
              b.setAttribute("width", w + "%");
              room = room * w / 100;
              b.toggleAttribute("hidden", isBeside || room < 0.2);
              if (b.hasAttribute("hidden")) return;
              rows = Math.max(rows, row);
              b.classList.toggle("thin", room < 5);
              b.children[2].setAttribute("visibility", room < 28 ? "hidden" : "inherit");
              inner(b).forEach(function (c) { each(c, room, row + 1); });
            })(whole, flame.clientWidth || 1000, 1);
            flame.setAttribute("height", rows * whole.children[1].getAttribute("height") + rows);
            out.disabled = top === whole;
          }
          function zoom(b) { top = b; draw(); }
          function search() {
            var word = find.value.toLowerCase(), calls = 0, share = 0;
            (function each(b, room, within) {
              var hit = word !== "" && b !== whole && b.children[2].textContent.toLowerCase().indexOf(word) >= 0;
              b.classList.toggle("hit", hit);
              if (hit) calls++;
              room = b === whole ? 100 : room * place(b)[1] / 100;
              if (hit && !within) share += room;
              inner(b).forEach(function (c) { each(c, room, within || hit); });
            })(whole, 100, false);
            found.textContent = word === "" ? "" : calls + (calls === 1 ? " call, " : " calls, ") + share.toFixed(1) + " %";
          }
          function box(e) { return e.target.closest ? e.target.closest(".fb") : null; }
          function go(b) {
            if (!b) return;
            list.forEach(function (o) { if (o.getAttribute("tabindex") === "0") o.setAttribute("tabindex", "-1"); });
            b.setAttribute("tabindex", "0");
            b.focus();
          }
          function beside(b, step) {
            do { b = step > 0 ? b.nextElementSibling : b.previousElementSibling; }
            while (b && (b.tagName !== "svg" || b.hasAttribute("hidden")));
            return b;
          }
          flame.setAttribute("role", "tree");
          list.forEach(function (b) {
            b.setAttribute("role", "treeitem");
            b.setAttribute("tabindex", b === whole ? "0" : "-1");
          });
          buttons.forEach(function (button, number) {
            button.addEventListener("click", function () {
              measure = number;
              buttons.forEach(function (o) { o.setAttribute("aria-pressed", String(o === button)); });
              draw();
              search();
            });
          });
          flame.addEventListener("click", function (e) { var b = box(e); if (b) zoom(b); });
          flame.addEventListener("mouseover", function (e) { var b = box(e); if (b) info.textContent = title(b); });
          flame.addEventListener("focusin", function (e) { var b = box(e); if (b) info.textContent = title(b); });
          flame.addEventListener("keydown", function (e) {
            var b = box(e), to = null;
            if (!b || e.ctrlKey || e.metaKey || e.altKey) return;
            if (e.key === "ArrowDown") to = inner(b).filter(function (c) { return !c.hasAttribute("hidden"); })[0];
            else if (e.key === "ArrowUp") to = b.parentNode === flame ? null : b.parentNode;
            else if (e.key === "ArrowRight") to = beside(b, 1);
            else if (e.key === "ArrowLeft") to = beside(b, -1);
            else if (e.key === "Home") to = whole;
            else if (e.key === "Enter" || e.key === " ") zoom(b);
            else if (e.key === "Escape") zoom(whole);
            else return;
            e.preventDefault();
            go(to);
          });
          out.addEventListener("click", function () { zoom(whole); });
          find.addEventListener("input", search);
          window.addEventListener("resize", draw);
          tools.hidden = false;
          draw();
        })();
        """
}
