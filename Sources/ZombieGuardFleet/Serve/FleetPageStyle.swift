// Style sheet and keyboard script of the pages of `zguard serve`, beyond the style of HTML reports.

import ZombieGuard

enum FleetPageStyle {
    /// The beginning of a page, up to its body.
    ///
    /// - Parameters:
    ///   - title: the title, as HTML.
    ///   - more: further elements of the head, as HTML.
    static func head(_ title: String, more: String = "") -> String {
        """
        <!DOCTYPE html>
        <html lang="en">
        <head>
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <meta name="color-scheme" content="light dark">
        <title>\(title) – zguard</title>
        <link rel="icon" href="data:,">
        <link rel="stylesheet" href="/style.css">\(more)
        </head>
        <body>
        """
    }

    static let text = """

        h1 a{color:inherit;text-decoration:none}h1 a:hover{color:var(--link)}
        .find{display:flex;flex-wrap:wrap;gap:.4rem;max-width:calc(1180px - 2.5rem);margin:.4rem auto 0}
        .find input{width:9rem;flex:1 1 5rem;min-width:0}.find #q{flex:3 1 12rem}
        select{font:inherit;font-size:.9rem;color:inherit;background:var(--card);border:1px solid var(--line);border-radius:6px;padding:.2rem .4rem}
        select:focus-visible{outline:2px solid var(--link);outline-offset:1px}
        .groups{list-style:none;margin:.6rem 0;padding:0;background:var(--card);border:1px solid var(--line);border-radius:8px;overflow:clip}
        .groups:empty{display:none}
        .g{display:grid;grid-template-columns:minmax(0,1fr) 15rem 150px;gap:.2rem 1rem;align-items:center;padding:.45rem .9rem}
        .g:not(:first-child){border-top:1px solid var(--line)}.g:hover,.g:focus-within{background:var(--soft)}
        .g>a{color:var(--ink);text-decoration:none}.g>a:hover{color:var(--link)}
        .kind{color:var(--red);font-weight:600}
        .state{border:1px solid var(--line);border-radius:6px;padding:0 .4rem;font-size:.82rem;color:var(--mute)}
        .state.regression{color:var(--red);border-color:var(--red);font-weight:600}.triage{margin:.6rem 0}.triage p{margin:.2rem 0}
        .login{max-width:34rem;margin:3rem auto}.logout{max-width:1180px;margin:1rem auto 0;padding:0 1.25rem;color:var(--mute)}
        .decide{display:flex;flex-wrap:wrap;gap:.5rem 1.2rem;margin:.6rem 0}.decide form{display:flex;flex-wrap:wrap;gap:.3rem;max-width:100%}
        .decide input{width:9.5rem;min-width:0}.decide .remark{width:14rem}
        .facts{color:var(--mute);font-size:.86rem;font-variant-numeric:tabular-nums;text-align:right}.facts b{color:var(--ink)}
        .spark{display:block;max-width:100%}.spark rect{fill:var(--blue)}.spark path{stroke:var(--line);fill:none}
        .chart{margin:.6rem 0 0}.chart svg{width:100%;height:auto}.chart figcaption{color:var(--mute);font-size:.84rem}
        .tables{display:grid;grid-template-columns:minmax(0,1fr) minmax(0,1fr);gap:0 2rem}
        table{border-collapse:collapse;width:100%}td{padding:.15rem .8rem .15rem 0;border-bottom:1px solid var(--line);vertical-align:top}
        td.n{text-align:right;font-variant-numeric:tabular-nums}time{white-space:nowrap}
        .hint{color:var(--mute);font-size:.84rem;margin:.3rem 0}.hint code{white-space:nowrap}
        .heat{table-layout:fixed;margin:.3rem 0;border-collapse:separate;border-spacing:1px}.heat caption{text-align:left;color:var(--mute);font-size:.84rem}
        .heat th{font-weight:400;font-size:.78rem;color:var(--mute);text-align:left;padding:0;border:0;white-space:nowrap;overflow:visible}
        .heat tbody th{width:6.5rem;overflow:hidden;text-overflow:ellipsis;padding-right:.4rem;color:var(--ink)}
        .heat thead th:first-child{width:6.5rem}.heat td{height:1.15rem;padding:0;border:0;background:var(--soft);font-size:0;border-radius:2px}
        .heat td.h1{background:color-mix(in srgb,var(--heat) 25%,var(--soft))}.heat td.h2{background:color-mix(in srgb,var(--heat) 45%,var(--soft))}
        .heat td.h3{background:color-mix(in srgb,var(--heat) 65%,var(--soft))}.heat td.h4{background:color-mix(in srgb,var(--heat) 85%,var(--soft))}
        .heat td.h5{background:var(--heat)}:root{--heat:#a11d16}@media(prefers-color-scheme:dark){:root{--heat:#ffa198}}
        .vh{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
        .scale{display:flex;gap:.6rem;flex-wrap:wrap;color:var(--mute);font-size:.8rem;margin:0}.scale i{display:inline-block;width:.9rem;height:.7rem;\
        border-radius:2px;margin-right:.25rem}.scale .h1{background:color-mix(in srgb,var(--heat) 25%,var(--soft))}
        .scale .h2{background:color-mix(in srgb,var(--heat) 45%,var(--soft))}.scale .h3{background:color-mix(in srgb,var(--heat) 65%,var(--soft))}
        .scale .h4{background:color-mix(in srgb,var(--heat) 85%,var(--soft))}.scale .h5{background:var(--heat)}
        .finds tr[aria-current] td{background:var(--hl)}.finds td:first-child{width:1%;white-space:nowrap}
        .life{list-style:none;margin:.5rem 0;padding:0;display:flex;flex-wrap:wrap;gap:.3rem 0}
        .life li{flex:1 1 11rem;min-width:0;border-top:3px solid var(--line);padding:.5rem .8rem .2rem 0;position:relative}
        .life li::before{content:"";position:absolute;top:-.5rem;left:0;width:.8rem;height:.8rem;border-radius:50%;background:var(--live)}
        .life .free{border-top-style:dashed}.life .free::before{background:var(--gone);border-radius:2px}
        .life .access::before{background:var(--hit);transform:rotate(45deg);border-radius:0}.life b{display:block}.life small{color:var(--mute);display:block}
        .pages{margin:.6rem 0;display:flex;gap:1rem;color:var(--mute)}
        kbd{border:1px solid var(--line);border-radius:4px;padding:0 .3rem;font-family:inherit}
        @media(max-width:800px){.g{grid-template-columns:minmax(0,1fr)}.facts{text-align:left}.tables{grid-template-columns:minmax(0,1fr)}\
        .find #q{flex-basis:100%}}
        """

    static let keys = """
        (function () {
          "use strict";
          var links = Array.prototype.slice.call(document.querySelectorAll(".g > a")), box = document.getElementById("q");
          document.addEventListener("keydown", function (e) {
            if (e.ctrlKey || e.metaKey || e.altKey) return;
            var typing = /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName);
            if (e.key === "Escape" && typing) { e.target.blur(); return; }
            if (typing) return;
            var at = links.indexOf(document.activeElement);
            if (e.key === "/" && box) { e.preventDefault(); box.focus(); box.select(); }
            if (e.key === "j" && links.length) links[Math.min(at + 1, links.length - 1)].focus();
            if (e.key === "k" && links.length) links[Math.max(at - 1, 0)].focus();
            if (e.key === "u") history.back();
          });
        })();

        """
}
