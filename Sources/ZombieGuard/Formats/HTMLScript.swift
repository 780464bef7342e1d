// Holds the script of the page, which filters, expands and collapses findings. The page is readable without it.

enum HTMLScript {
    /// SHA-256 of the text in base64, for the page's content security policy. Tests/Reports/formats.py prints the
    /// required value.
    static let digest = "q95WI7cNS/9sYqYmacBlZDbwAJ+vRDAucQ1E7uwfRqw="

    static let text = """
        (function () {
          "use strict";
          var tools = document.querySelector(".tools"), box = document.getElementById("q");
          var shown = document.getElementById("n"), all = document.getElementById("all");
          var findings = Array.prototype.slice.call(document.querySelectorAll("details.f"));
          var groups = Array.prototype.slice.call(document.querySelectorAll(".group, section.kind")).reverse();
          var texts = null, timer = 0;
          if (findings.length > 1) tools.hidden = false;

          function filter() {
            var words = box.value.toLowerCase().split(/\\s+/).filter(Boolean), count = 0;
            if (!texts) texts = findings.map(function (f) {
              return (f.textContent + " " + f.closest("section").id).toLowerCase();
            });
            findings.forEach(function (f, i) {
              f.hidden = !words.every(function (w) { return texts[i].indexOf(w) >= 0; });
              if (!f.hidden) count++;
            });
            groups.forEach(function (g) { g.hidden = !g.querySelector("details.f:not([hidden])"); });
            shown.textContent = words.length ? count + " of " + findings.length : "";
          }
          function setAll(open) {
            findings.forEach(function (f) { f.open = open; });
            all.textContent = open ? "Close all" : "Open all";
          }
          function follow() {
            var target = /^#f\\d+$/.test(location.hash) && document.getElementById(location.hash.slice(1));
            if (!target) return;
            if (target.hidden) { box.value = ""; filter(); }
            target.open = true;
            target.scrollIntoView();
          }
          box.addEventListener("input", function () { clearTimeout(timer); timer = setTimeout(filter, 80); });
          all.addEventListener("click", function () { setAll(all.textContent === "Open all"); });
          window.addEventListener("hashchange", follow);
          window.addEventListener("beforeprint", function () { setAll(true); });
          document.addEventListener("keydown", function (e) {
            if (e.key === "/" && e.target !== box) { e.preventDefault(); box.focus(); }
            if (e.key === "Escape" && e.target === box) { box.value = ""; filter(); }
          });
          follow();
        })();
        """
}
