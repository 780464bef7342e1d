"""C and C++ compilers on large files, make, and the programs that they made."""

import os

import generate
from case import Case, Need


class CompileC(Case):
    language, source, standard = "c", "big.c", "-std=c17"
    flags = ("-O1", "-g")

    def setup(self, inputs):
        (inputs / self.source).write_text(generate.c_source(1750))

    def steps(self, run):
        compiler = self.needs[0].command
        run.step([compiler, self.standard, *self.flags, "-c", run.inputs / self.source, "-o", "big.o"])
        run.step([compiler, "big.o", "-o", "big", *(["-lstdc++"] if self.language == "c++" else [])])
        run.step(["./big"])
        run.keep("big.o", "big")


class Gcc(CompileC):
    name = "gcc"
    needs = (Need("gcc", "gcc"),)
    sees = ("cc1", r".*gcc.*", r"(.*-)?as")


class Clang(CompileC):
    name = "clang"
    needs = (Need("clang", "clang"),)
    sees = (r"clang.*",)
    flags = ("-O1",)


class CompileCxx(CompileC):
    language, source, standard = "c++", "big.cpp", "-std=c++17"
    flags = ("-O1",)

    def setup(self, inputs):
        (inputs / self.source).write_text(generate.cxx_source(16))


class Gxx(CompileCxx):
    name = "g++"
    needs = (Need("g++", "g++"),)
    sees = ("cc1plus",)


class Clangxx(CompileCxx):
    name = "clang++"
    needs = (Need("clang++", "clang"),)
    sees = (r"clang.*",)


class Make(Case):
    """Many short compilers in parallel, an archive, a link."""
    name = "make"
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
