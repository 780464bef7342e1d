"""Interpreters and virtual machines."""

import shutil

from case import Case, Need
from harness import INPUTS

PYTHON = "/usr/bin/python3" if shutil.which("/usr/bin/python3") else "python3"
PYTHON_NEED = Need(PYTHON, "python3")


class Python(Case):
    name = "python3"
    what = "the standard library: JSON, regular expressions, threads, processes, SQLite, ctypes"
    needs = (PYTHON_NEED,)
    sees = (r"python3[.\d]*",)

    def steps(self, run):
        run.step([PYTHON, INPUTS / "stdlib.py"])


class PythonMalloc(Case):
    """The script of `Python` without Python's own pools: each object is a block."""
    name = "python3-malloc"
    what = "the same, with malloc for every object"
    needs = (PYTHON_NEED,)
    sees = (r"python3[.\d]*",)

    def steps(self, run):
        run.step([PYTHON, INPUTS / "stdlib.py", "--small"], env={"PYTHONMALLOC": "malloc"})


class Perl(Case):
    name = "perl"
    what = "hashes, regular expressions, closures, sorting, fork"
    version = ["perl", "-v"]
    needs = (Need("perl", "perl"),)
    sees = ("perl",)

    def steps(self, run):
        run.step(["perl", INPUTS / "work.pl"])


class Ruby(Case):
    name = "ruby"
    what = "objects, threads, fibers, garbage collection"
    needs = (Need("ruby", "ruby"),)
    sees = (r"ruby[.\d]*",)

    def steps(self, run):
        run.step(["ruby", INPUTS / "work.rb"])


class Lua(Case):
    name = "lua"
    what = "tables, coroutines, strings, closures"
    version = ["lua5.4", "-v"]
    needs = (Need("lua5.4", "lua5.4"),)
    sees = (r"lua5\.4",)

    def steps(self, run):
        run.step(["lua5.4", INPUTS / "work.lua"])


PHP_NEEDS = (Need("php", "php-cli"), *(
    Need("php", f"php-{package}", ["php", "-r", f"exit(extension_loaded('{extension}') ? 0 : 1);"])
    for package, extension in (("mbstring", "mbstring"), ("xml", "dom"), ("sqlite3", "pdo_sqlite"), ("intl", "intl"))))


class Php(Case):
    """PHP loads its extensions with RTLD_DEEPBIND, which bypasses preloaded libraries."""
    name = "php"
    what = "arrays, DOM, SQLite, mbstring, intl; extensions bound past every preload"
    needs = PHP_NEEDS
    sees = (r"php[.\d]*",)

    def steps(self, run):
        run.step(["php", INPUTS / "work.php"])


class PhpMalloc(Case):
    """The script of `Php` without PHP's own pools."""
    name = "php-malloc"
    what = "the same without PHP's own pools"
    needs = PHP_NEEDS
    sees = (r"php[.\d]*",)

    def steps(self, run):
        run.step(["php", INPUTS / "work.php"], env={"USE_ZEND_ALLOC": "0"})


class Node(Case):
    name = "node"
    what = "JavaScript: streams, worker threads, compression, cryptography"
    needs = (Need("node", "nodejs"),)
    sees = (r"node(js)?",)

    def steps(self, run):
        run.step(["node", INPUTS / "work.mjs"], status=5)


class Java(Case):
    name = "java"
    what = "javac and its program with two collectors; null checks by SIGSEGV"
    version = ["java", "-version"]
    needs = (Need("javac", "default-jdk-headless"), Need("java", "default-jdk-headless"))
    sees = ("javac", "java")

    def steps(self, run):
        run.step(["javac", "-d", ".", INPUTS / "Work.java"])
        for collector in ("-XX:+UseG1GC", "-XX:+UseSerialGC"):
            run.step(["java", "-Xmx192m", "-Xss512k", collector, "-cp", ".", "Work"], status=7)
        run.keep("*.class")
