// Holds the style sheet of the page. No meaning depends on color alone: each color comes with a word or a shape.

package enum HTMLStyle {
    /// SHA-256 of the text in base64, for the page's content security policy. Tests/Reports/formats.py prints the
    /// required value.
    static let digest = "XLfDIL8Y9Yu3rPaKowwYZE6Wcw0uL8t+fdHbPq/aosg="

    package static var part: HTMLPage.Part { HTMLPage.Part(text, digest: digest) }

    package static let text = """
        :root{color-scheme:light dark;--bg:#f6f6f4;--card:#fff;--ink:#1c2024;--mute:#5d666f;--line:#dcdfe1;--soft:#f0f1f0;\
        --link:#1d5fa8;--red:#b3261e;--redbg:#fdecea;--amber:#8a5300;--blue:#23618f;--green:#2d6a3e;--hl:#fff3c4;--hit:#c9372c;\
        --own:#1c2024;--live:#3f8f5b;--held:#c08a2b;--gone:#8a8f98;--c0:#f6dcae;--c1:#f3cfa3;--c2:#f0d8c6}
        @media(prefers-color-scheme:dark){:root{--bg:#131619;--card:#1b1f23;--ink:#e4e7ea;--mute:#9ba5ae;--line:#30363c;\
        --soft:#22272c;--link:#86b8ec;--red:#ff8f85;--redbg:#3a1f1d;--amber:#e5b567;--blue:#8cc4f0;--green:#8fd0a2;\
        --hl:#3d3514;--hit:#d0453b;--own:#f2f4f6;--live:#57ab76;--held:#d3a146;--gone:#7d848d;\
        --c0:#57431f;--c1:#5e3d24;--c2:#503a32}}
        *{box-sizing:border-box}
        html{scroll-padding-top:7rem;-webkit-text-size-adjust:100%}
        body{margin:0;overflow-wrap:anywhere;background:var(--bg);color:var(--ink);font:14px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,\
        "Noto Sans","Liberation Sans",sans-serif}
        pre{overflow-wrap:normal}
        code,pre,.fr,.say b,.bp text,.tl text{font-family:ui-monospace,"SF Mono","Cascadia Mono","JetBrains Mono",Menlo,\
        "DejaVu Sans Mono","Liberation Mono",monospace}
        code{font-size:.93em}
        a{color:var(--link)}
        [hidden]{display:none!important}
        header{position:sticky;top:0;z-index:2;background:var(--bg);border-bottom:1px solid var(--line);padding:.6rem 1.25rem .5rem}
        .bar{display:flex;flex-wrap:wrap;align-items:baseline;gap:.2rem 1rem;max-width:calc(1180px - 2.5rem);margin:0 auto}
        h1{font-size:1.15rem;line-height:1.3;margin:0}
        .sum{margin:0;color:var(--mute)}.sum b{color:var(--ink)}
        .tools{margin-left:auto;display:flex;align-items:center;gap:.5rem}
        .tools output{color:var(--mute);font-size:.85rem;white-space:nowrap}
        input,button{font:inherit;font-size:.9rem;color:inherit;background:var(--card);border:1px solid var(--line);\
        border-radius:6px;padding:.2rem .6rem}
        input{width:15rem;max-width:100%}button{cursor:pointer;white-space:nowrap}
        input:focus-visible,button:focus-visible,summary:focus-visible,a:focus-visible{outline:2px solid var(--link);outline-offset:1px}
        nav{max-width:calc(1180px - 2.5rem);margin:.25rem auto 0;display:flex;flex-wrap:wrap;gap:.1rem 1.1rem}
        nav a{color:var(--mute);text-decoration:none;font-size:.9rem}nav a b{color:var(--ink)}nav a:hover{color:var(--link)}
        main{max-width:1180px;margin:0 auto;padding:.5rem 1.25rem 2rem}
        h2{font-size:1rem;margin:1.6rem 0 0;letter-spacing:.01em}
        h2 span,h3 span{font-weight:400;color:var(--mute);margin-left:.2rem}
        h3{font-size:.88rem;font-weight:600;margin:.9rem 0 .3rem}
        .why{margin:.1rem 0 0;color:var(--mute)}
        .help{margin:0 0 .6rem;color:var(--mute);max-width:46rem}.help summary{font-size:.85rem}.help p{margin:.3rem 0}
        summary{cursor:pointer}
        .none{margin:3rem 0;text-align:center;color:var(--mute);font-size:1.1rem}
        .notes{margin:.8rem 0 0;padding:.45rem .9rem;background:var(--soft);border-radius:8px;color:var(--mute);\
        overflow-wrap:anywhere;list-style:none}.notes ul{margin:.3rem 0 .2rem;padding-left:1.2rem}
        .list{background:var(--card);border:1px solid var(--line);border-radius:8px;margin:.4rem 0 .8rem;overflow:clip}
        .f:not(:first-child){border-top:1px solid var(--line)}
        .f>summary{list-style:none;display:flex;align-items:baseline;gap:.7rem;padding:.4rem .9rem}.f>summary:hover{background:var(--soft)}
        .f>summary::-webkit-details-marker{display:none}
        .f>summary .no{flex:none;min-width:1.6rem;text-align:right;color:var(--mute);font-size:.85rem;font-variant-numeric:tabular-nums}
        .f>summary .say{flex:1;min-width:0}
        .f:target>summary{box-shadow:inset 3px 0 var(--link)}
        .f[open]>summary{border-bottom:1px solid var(--line)}.f[open]>summary .say{font-weight:600}
        .where{color:var(--mute);font-weight:400}
        .cnt,.tag{flex:none;font-size:.8rem;border-radius:9px;padding:0 .5rem;background:var(--soft);color:var(--mute);white-space:nowrap}
        .cnt{font-weight:600;color:var(--ink);font-variant-numeric:tabular-nums}
        .in{padding:.7rem .9rem .6rem}
        .bk{margin:0 0 .5rem}.bk figcaption{color:var(--mute);font-size:.86rem}.bk figcaption b{color:var(--ink);font-weight:600}
        .scroll{overflow-x:auto}
        .bp{display:block;max-width:100%;height:auto}
        .bp text{font-size:10.5px;fill:var(--mute);text-anchor:middle}.bp [text-anchor=start]{text-anchor:start}.bp [text-anchor=end]{text-anchor:end}.bp .in{fill:var(--ink);font-size:10px}.bp .on{fill:#fff}.bp .hl{text-anchor:start;fill:var(--red);font-weight:600;font-size:11px}
        .before,.beyond{fill:url(#hatch)}.body{fill:var(--soft)}.header{fill:var(--line)}
        .hit{fill:var(--hit)}.bp .grid{stroke:var(--line);fill:none}.bp .header+.grid{stroke:var(--mute)}
        .edge{fill:none;stroke:var(--mute);stroke-width:1.5}.edge.live{stroke:var(--live);stroke-width:2}
        .edge.retired,.edge.reusable{stroke-dasharray:4 3}
        .arrow{fill:var(--hit)}.lens{fill:var(--soft);stroke:var(--line)}.whole{stroke:var(--mute)}
        .state{font-weight:600;color:var(--amber)}.state.live{color:var(--green)}
        #hatch path{stroke:var(--line);stroke-width:1.4}
        .bp.narrow{display:none}
        .path{list-style:none;display:flex;flex-wrap:wrap;gap:.5rem 0;margin:.2rem 0 .6rem;padding:0;font-size:.86rem}
        .path li{display:flex;align-items:center;max-width:100%;min-width:0}.path li:not(:last-child)::after{content:"→";content:"→" / "points to";flex:none;width:1.8rem;text-align:center;color:var(--mute)}\
        .path .loose:not(:last-child)::after{content:"⇢";content:"⇢" / "may point to"}
        .path div{border:1.5px solid var(--mute);border-radius:6px;padding:.25rem .6rem;min-width:0;max-width:14rem}.path i,.path span{display:block;font-style:normal;color:var(--mute)}\
        .path b{display:block;font-weight:600}.path .root div{border-width:3px;border-style:double}.path .unknown div{border-style:dotted}.path .freed div{border:1.5px dashed var(--hit)}.path .freed i{color:var(--red);font-weight:600}
        .pic{margin:.5rem 0 .2rem}
        .pic svg text{font:11px ui-monospace,"SF Mono","Cascadia Mono","JetBrains Mono",Menlo,"DejaVu Sans Mono","Liberation Mono",monospace;\
        fill:var(--ink);pointer-events:none}
        .pic figcaption,.wg figcaption{color:var(--mute);font-size:.86rem}
        .flame{display:block}.fb rect{stroke:var(--bg);stroke-width:.6}
        .c0>rect{fill:var(--c0)}.c1>rect{fill:var(--c1)}.c2>rect{fill:var(--c2)}.fb.lib>rect{fill:var(--line)}.rest>rect{fill:url(#hatch)}
        .wg{margin:.2rem 0 .6rem}.wg svg{display:block;max-width:100%;height:auto}.wg text{font-size:11px;fill:var(--mute)}
        .wg .wt{font-weight:600;font-size:12px;fill:var(--ink)}.wg .wl{text-anchor:middle}.wg rect{fill:var(--soft);stroke:var(--mute);stroke-width:1.5}
        .wg .thread rect{fill:var(--card);stroke:var(--hit)}.wa{fill:none;stroke:var(--mute);stroke-width:1.5}.wh{fill:var(--mute)}
        .chg{margin:.8rem 0 0}.held{margin-bottom:.8rem}.chg td{padding:.1rem 1.2rem .1rem 0;white-space:pre;vertical-align:top}.held td{white-space:normal}.held td:last-child{overflow-wrap:normal}
        .stacks{display:grid;grid-template-columns:minmax(0,1fr) minmax(0,1fr);gap:.5rem 1.2rem}
        .stacks .access,.stacks.n1 section,.stacks.n2 section.access{grid-column:1/-1}
        .stack{border-left:3px solid var(--line);padding:.05rem 0 .05rem .8rem;min-width:0}
        .stack.access{border-color:var(--hit)}.stack.thrown,.stack.free{border-color:var(--held)}.stack.alloc{border-color:var(--blue)}
        h4{margin:0 0 .25rem;font-size:.86rem;font-weight:600}
        .access h4{color:var(--red)}.thrown h4,.free h4{color:var(--amber)}.alloc h4{color:var(--blue)}
        .src{margin:.1rem 0 .4rem;padding:.35rem 0;background:var(--soft);border-radius:6px;overflow-x:auto;font-size:12px;line-height:1.5;tab-size:4}
        .src span{display:block;width:max-content;min-width:100%;padding:0 .8rem 0 0}
        .src span::before{content:attr(data-n);display:inline-block;width:3.6rem;padding-right:.9rem;text-align:right;color:var(--mute);user-select:none}
        .src .at{background:var(--hl)}.src .at::before{color:var(--ink);font-weight:700}
        .stale{margin:-.2rem 0 .4rem;font-size:.82rem;color:var(--amber)}
        .fr,.fr ol{list-style:none;margin:0;padding:0;font-size:12px;line-height:1.55}
        .fr li{position:relative;padding-left:2.1rem;display:flex;flex-wrap:wrap;column-gap:.6rem}
        .fr li>i{position:absolute;left:0;width:1.5rem;text-align:right;color:var(--mute);font-style:normal}
        .fr b{font-weight:400;min-width:0;max-width:100%}.fr .org>b{font-weight:700}
        .fr em{color:var(--mute);font-style:normal;font-size:11px}
        .fr span{color:var(--mute);min-width:0}.fr .org>span{color:var(--ink)}
        .fr .lib,.fr .lib b,.fr .no{color:var(--mute)}
        .fr .fold{display:block;padding-left:0}.fold summary{color:var(--mute);padding-left:2.1rem;list-style:none}
        .fold summary::before{content:"▸ "}.fold details[open]>summary::before{content:"▾ "}
        .fold summary::-webkit-details-marker{display:none}
        .more{color:var(--mute);padding-left:2.1rem}
        .meta{display:flex;flex-wrap:wrap;gap:.05rem 1.3rem;margin:.7rem 0 0;padding-top:.45rem;border-top:1px solid var(--line);font-size:.82rem;color:var(--mute)}
        .meta div{display:flex;align-items:baseline;gap:.4rem;min-width:0}.meta dt{flex:none}.meta dt::after{content:":"}.meta dd{margin:0;color:var(--ink)}
        .time{margin-top:.6rem}.time>summary h2{display:inline-block;margin:.4rem 0 0}
        .tl{margin:0}.tl svg{display:block;width:100%;min-width:640px;height:auto}.tl text{font-size:11px;fill:var(--mute)}
        .tl .st{fill:var(--ink);font:600 12px system-ui,sans-serif;stroke:var(--bg);stroke-width:4px;paint-order:stroke}.tl .ml{fill:var(--red);font-weight:600}
        .tl .grid{stroke:var(--line);fill:none}.tl .line{fill:none;stroke-width:1.5;stroke-linejoin:round}.tl .area{opacity:.22}
        .tl .live{stroke:var(--live)}.tl .area.live{fill:var(--live);stroke:none}
        .tl .held{stroke:var(--held)}.tl .area.held{fill:var(--held);stroke:none}
        .tl .retired{stroke:var(--gone)}.tl .area.retired{fill:var(--gone);stroke:none}
        .tl .committed{stroke:var(--blue)}.tl .cap{stroke:var(--mute);stroke-dasharray:5 4}
        .mk{stroke:var(--hit);stroke-width:1;opacity:.5}.mh{fill:var(--hit)}.tl a:hover .mk{stroke-width:2.5;opacity:1}
        .tl figcaption{display:flex;flex-wrap:wrap;gap:.1rem 1.2rem;color:var(--mute);font-size:.84rem;margin-bottom:.2rem}
        .key::before{content:"";display:inline-block;width:14px;height:8px;margin-right:.4rem;border-radius:2px;background:var(--gone)}
        .k-live::before{background:var(--live)}.k-held::before{background:var(--held)}
        .k-committed::before,.k-cap::before{height:0;background:none;border-top:2px solid var(--blue);vertical-align:middle;border-radius:0}
        .k-cap::before{border-top-style:dashed;border-color:var(--mute)}.k-mark::before{width:2px;height:11px;background:var(--hit);vertical-align:middle}
        .supp{margin-top:1.6rem;color:var(--mute)}.supp li{margin:.2rem 0}
        footer{max-width:1180px;margin:0 auto;padding:.8rem 1.25rem 2rem;border-top:1px solid var(--line);color:var(--mute);font-size:.84rem}
        .defs{position:absolute;width:0;height:0}
        @media(max-width:600px){.path{gap:.1rem}.path,.path li{flex-direction:column;align-items:flex-start}.path li:not(:last-child)::after{content:"↓";content:"↓" / "points to"}\
        .path .loose:not(:last-child)::after{content:"⇣";content:"⇣" / "may point to"}.path div{max-width:100%}}
        @media(max-width:800px){.stacks{grid-template-columns:minmax(0,1fr)}.tools{margin-left:0;flex-wrap:wrap;width:100%}input{flex:1;width:auto;min-width:0}\
        header{position:static;padding:.6rem .8rem .5rem}main{padding:.3rem .8rem 2rem}footer{padding-inline:.8rem}html{scroll-padding-top:1rem}.bp{max-width:none}.bp:has(+.narrow){display:none}.bp.narrow{display:block;max-width:100%}.tl svg{min-width:860px}\
        .f>summary{gap:.5rem;padding:.45rem .6rem}.in{padding:.6rem}.f>summary .no{min-width:1rem}}
        @media print{header{position:static}.tools,.help{display:none}body{background:#fff;font-size:11px}.f{break-inside:auto}\
        .f>summary{break-after:avoid}.stack,.bk,.tl{break-inside:avoid}.src{overflow:hidden}}
        """
}
