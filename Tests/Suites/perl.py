"""Runs Perl's core tests from its source package with the installed perl.

The tests load their modules from ../lib: a tree of links to the installed modules and the tests of the source package. A unit is a script.
"""

import os
import re
import shutil

from suite import Result, Suite, Unit
from tap import read_tap

# Directories of t/ that examine the source or a build, take hours, or need another system.
LEFT_OUT = ("porting", "benchmark", "bigmem", "win32", "x2p", "lib")
QUICK = {"op/pack.t", "op/array.t", "op/hash.t", "op/threads.t", "op/sprintf.t", "op/sort.t", "op/split.t", "op/closure.t",
         "op/magic.t", "re/pat.t", "re/regexp.t", "io/open.t", "mro/basic.t", "comp/parser.t"}


class Perl(Suite):
    name = "perl"
    title = "Perl core tests"
    command = "perl -I../lib SCRIPT"
    packages = ("perl", "perl-base", "libperl5.36")
    sources = ("perl",)
    deadline = 240.0
    is_quick = True

    def prepare(self):
        source = self.fetch_source("perl", "t/TEST")
        self.tree = self.build / "tree"
        if (self.tree / "ready").exists() and (self.tree / "ready").stat().st_mtime > (source.parent / "version").stat().st_mtime:
            return
        shutil.rmtree(self.tree, ignore_errors=True)
        shutil.copytree(source / "t", self.tree / "t", symlinks=True)
        for installed in ("/usr/share/perl/5.36", "/usr/lib/x86_64-linux-gnu/perl/5.36", "/usr/lib/x86_64-linux-gnu/perl-base"):
            link_files(installed, self.tree / "lib")
        for path in (source / "lib").rglob("*"):
            if path.is_file() and (path.suffix in (".t", ".pl") or "t" in path.relative_to(source / "lib").parts):
                target = self.tree / "lib" / path.relative_to(source / "lib")
                if not target.exists():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(path, target)
        for folder in ("ext", "dist", "cpan"):
            shutil.copytree(source / folder, self.tree / folder, symlinks=True)
        shutil.copy(source / "MANIFEST", self.tree)
        for link in ("perl", "t/perl"):
            (self.tree / link).symlink_to("/usr/bin/perl")
        (self.tree / "ready").touch()

    def units(self):
        top = self.tree / "t"
        scripts = [path for path in top.glob("*/*.t") if path.parent.name not in LEFT_OUT]
        scripts = [path for path in scripts if not path.name.startswith(("uniprops", "fold_grind"))]
        names = [str(path.relative_to(top)) for path in scripts]
        names += ["../" + str(path.relative_to(self.tree)) for path in (self.tree / "lib").rglob("*.t") if not path.is_symlink()]
        for folder in ("ext", "dist", "cpan"):
            names += ["../" + str(path.relative_to(self.tree)) for path in (self.tree / folder).glob("*/t/*.t")]
        return [Unit(name, quick=name in QUICK) for name in sorted(names)]

    def run(self, unit, place, only=()):
        script, cwd = unit.name, self.tree / "t"
        library = "../lib"
        if script.startswith(("../ext/", "../dist/", "../cpan/")):
            _, folder, module, script = script.split("/", 3)
            cwd, library = self.tree / folder / module, "../../lib"
        first = (cwd / script).open("rb").readline().decode("latin-1")
        switches = re.match(r"#!.*perl.*? (-\S+)", first)
        argv = ["/usr/bin/perl" if cwd.name != "t" else "./perl", *([switches.group(1)] if switches else []), "-I" + library, script]
        ended = place.run(argv, env={"PERL_CORE": "1", "PERL_HASH_SEED": "0", "LC_ALL": "C", "LANG": "C", **unit.env},
                          deadline=self.deadline, cwd=cwd)
        return Result(read_tap(ended.output, ended.status), ended.findings, ended.seen, ended.output[-2000:] + ended.errors[-2000:])


def link_files(source, target):
    """Makes a directory tree with a link for every file; existing files stay."""
    for folder, _, files in os.walk(source):
        below = target / os.path.relpath(folder, source)
        below.mkdir(parents=True, exist_ok=True)
        for name in files:
            if not (below / name).exists():
                (below / name).symlink_to(os.path.join(folder, name))
