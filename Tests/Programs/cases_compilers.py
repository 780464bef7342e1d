"""Compilers, linkers and build systems, and the programs that they build."""

import os
import shutil
import subprocess

import generate
from case import Case, Need, Source
from harness import INPUTS


class CompileC(Case):
    language, source, standard = "c", "big.c", "-std=c17"
    flags = ("-O1", "-g")

    def setup(self, inputs):
        (inputs / self.source).write_text(generate.c_source(int(1750 * self.size)))

    def steps(self, run):
        compiler = self.needs[0].command
        run.step([compiler, self.standard, *self.flags, "-c", run.inputs / self.source, "-o", "big.o"])
        run.step([compiler, "big.o", "-o", "big", *(["-lstdc++"] if self.language == "c++" else [])])
        run.step(["./big"])
        run.keep("big.o", "big")


class Gcc(CompileC):
    name = "gcc"
    what = "a large C file: object and program are identical bytes"
    needs = (Need("gcc", "gcc"),)
    sees = ("cc1", r".*gcc.*", r"(.*-)?as")


class Clang(CompileC):
    name = "clang"
    what = "a large C file: object and program are identical bytes"
    needs = (Need("clang", "clang"),)
    sees = (r"clang.*",)
    flags = ("-O1",)


class CompileCxx(CompileC):
    language, source, standard = "c++", "big.cpp", "-std=c++17"
    flags = ("-O1",)

    def setup(self, inputs):
        (inputs / self.source).write_text(generate.cxx_source(int(16 * self.size)))


class Gxx(CompileCxx):
    name = "g++"
    what = "a large C++ file with templates"
    needs = (Need("g++", "g++"),)
    sees = ("cc1plus",)


class Clangxx(CompileCxx):
    name = "clang++"
    what = "a large C++ file with templates"
    needs = (Need("clang++", "clang"),)
    sees = (r"clang.*",)


class Make(Case):
    """Many short compilers in parallel, an archive, a link."""
    name = "make"
    what = "24 parallel compilers, an archive, a link"
    needs = (Need("make", "make"), Need("gcc", "gcc"))
    sees = ("make", "cc1")

    def setup(self, inputs):
        for number in range(24):
            lines = generate.c_source(12, seed=100 + number)
            (inputs / f"part{number}.c").write_text(lines.replace("int main(void)", f"int part{number}(void)"))
        (inputs / "main.c").write_text(
            "".join(f"int part{n}(void);\n" for n in range(24))
            + "int main(void) { return " + " + ".join(f"part{n}()" for n in range(24)) + "; }\n")
        (inputs / "Makefile").write_text(f"""
SOURCES := $(sort $(wildcard {inputs}/*.c))
OBJECTS := $(notdir $(SOURCES:.c=.o))
all: program
program: main.o libparts.a ; gcc -o $@ $^
libparts.a: $(filter-out main.o,$(OBJECTS)) ; ar rcsD $@ $^
%.o: {inputs}/%.c ; gcc -O1 -c $< -o $@
""")

    def steps(self, run):
        order = lambda text: "\n".join(sorted(text.splitlines()))  # noqa: E731 (parallel jobs print in any order)
        run.step(["make", "-j2", "-f", run.inputs / "Makefile"], normalise=order)
        run.step(["make", "-f", run.inputs / "Makefile"], normalise=order)
        run.step([os.path.join(".", "program")])
        run.keep("*.o", "*.a", "program")


class Cmake(Case):
    """Compiler checks, a generated build, many jobs, the project's tests."""
    name = "cmake-ninja"
    what = "configure with compiler checks, build with ninja, change, build again, test"
    needs = (Need("cmake", "cmake"), Need("ninja", "ninja-build"), Need("gcc", "gcc"), Need("g++", "g++"))
    sees = ("cmake", "ninja", "cc1")

    def setup(self, inputs):
        for number in range(12):
            source = generate.c_source(10, seed=300 + number).replace("int main(void)", f"int part{number}(void)")
            (inputs / f"part{number}.c").write_text(source)

    def steps(self, run):
        order = lambda text: "\n".join(sorted(line for line in text.splitlines() if not line.startswith("[")  # noqa: E731
                                              and "done (" not in line and "sec" not in line))
        run.step(["cmake", "-G", "Ninja", "-S", INPUTS / "cmake", "-B", "build", f"-DPARTS_DIRECTORY={run.inputs}",
                  "-DCMAKE_BUILD_TYPE=Release"], normalise=order)
        run.step(["ninja", "-C", "build", "-j2"], normalise=order)
        run.step(["build/program"])
        run.step(["ninja", "-C", "build", "-t", "commands"])
        os.utime(run.dir / "build" / "config.h")
        run.step(["cmake", "--build", "build"], normalise=order)
        run.step(["ctest", "--test-dir", "build"], normalise=order)
        run.keep("build/**/*.o", "build/*.a", "build/*.so", "build/program", "build/build.ninja")


class Linkers(Case):
    """Four linkers link the same objects. Two of the linkers use threads."""
    name = "linkers"
    long = True
    what = "bfd, gold, lld and mold link C++ objects, with sections collected and folded; the results run"
    version = ["ld.bfd", "--version"]
    needs = (Need("ld.bfd", "binutils"), Need("ld.gold", "binutils"), Need("ld.lld", "lld"), Need("mold", "mold"), Need("g++", "g++"))
    sees = (r"ld(\.bfd)?|.*-ld\.bfd", r".*gold", "lld", "mold")

    def setup(self, inputs):
        (inputs / "main.cpp").write_text(generate.cxx_source(3))
        for number in range(6):
            (inputs / f"part{number}.cpp").write_text(generate.c_source(40, seed=40 + number).replace("int main(void)", f"int part{number}(void)"))
        for path in sorted(inputs.glob("*.cpp")):
            subprocess.run(["g++", "-std=c++17", "-fpermissive", "-w", "-O1", "-g", "-ffunction-sections", "-c", path, "-o", path.with_suffix(".o")], check=True,
                           capture_output=True)

    def steps(self, run):
        objects = sorted(run.inputs.glob("*.o"))
        for linker in ("bfd", "gold", "lld", "mold"):
            if linker == "mold":
                (run.dir / "bin").mkdir()
                (run.dir / "bin" / "ld").symlink_to(shutil.which("mold"))  # this compiler may not know -fuse-ld=mold
            choice = ["-B", "bin"] if linker == "mold" else [f"-fuse-ld={linker}"]
            run.step(["g++", *choice, "-Wl,--gc-sections", "-Wl,--build-id", *objects, "-o", f"program-{linker}"])
            run.step([f"./program-{linker}"], status=None)
        run.keep("program-*")


class DebianSource(Case):
    """Builds a source package. Every object file and the program must be identical in the plain and the guarded run."""
    long = True

    def source(self):
        return next(need for need in self.needs if isinstance(need, Source))

    def setup(self, inputs):
        shutil.copytree(self.source().folder, inputs / "tree", symlinks=True)

    def version_text(self):
        changes = self.source().folder / "debian" / "changelog"
        return changes.read_text().split("(")[1].split("-")[0] if changes.exists() else ""


class BuildLua(DebianSource):
    name = "build-lua"
    what = "lua5.4 from its source with gcc and make, optimised; it runs a script"
    needs = (Need("gcc", "gcc"), Need("make", "make"), Source("lua5.4", "src/lua.c"))
    sees = ("make", "cc1", "lua")

    def steps(self, run):
        shutil.copytree(run.inputs / "tree" / "src", run.dir / "src")
        (run.dir / "src" / "lua5.4-deb-multiarch.h").write_text('#define DEB_HOST_MULTIARCH "host"\n')  # generated by the package's build
        # Debian's own makefile needs libtool; this makefile builds the interpreter from the same objects.
        (run.dir / "src" / "makefile.plain").write_text(
            "OBJECTS := $(patsubst %.c,%.o,$(filter-out luac.c,$(sort $(wildcard *.c))))\n"
            "lua: $(OBJECTS) ; gcc -o $@ $^ -lm -ldl\n%.o: %.c ; gcc -std=gnu99 -O2 -g -DLUA_USE_POSIX -DLUA_USE_DLOPEN -c $< -o $@\n")
        run.step(["make", "-j2", "-C", "src", "-f", "makefile.plain"], normalise=sorted_lines)
        run.step(["src/lua", INPUTS / "work.lua"], status=None)
        run.keep("src/*.o", "src/lua")


class BuildZlib(DebianSource):
    name = "build-zlib"
    what = "zlib from its source with its configure, clang and make; its own tests"
    needs = (Need("clang", "clang"), Need("make", "make"), Source("zlib", "zlib.h"))
    sees = ("make", r"clang.*")

    def steps(self, run):
        shutil.copytree(run.inputs / "tree", run.dir / "z")
        run.step(["sh", "-c", "cd z && CC=clang ./configure"])
        run.step(["make", "-j2", "-C", "z"], normalise=sorted_lines)
        run.step(["make", "-C", "z", "test"], normalise=sorted_lines)
        run.keep("z/*.o", "z/*.a", "z/example", "z/minigzip")


def sorted_lines(text):
    return "\n".join(sorted(text.splitlines()))


class Rust(Case):
    """The distribution's compiler: LLVM in many threads."""
    name = "rustc"
    what = "a program with generics, threads and hash maps, optimised and not; it runs"
    needs = (Need("/usr/bin/rustc", "rustc"), Need("gcc", "gcc"))
    sees = ("rustc", "work")
    long = True

    def steps(self, run):
        for level in ("0", "2"):
            run.step(["/usr/bin/rustc", "--edition", "2021", "-C", f"opt-level={level}", "-C", "codegen-units=4", "--crate-name", "work", INPUTS / "work.rs", "-o", "work"])
            run.keep("work")
            run.step(["./work"], status=3)
        run.step(["/usr/bin/rustc", "--edition", "2021", "--emit=metadata", "--crate-type=lib", INPUTS / "work.lua"], status=1)
