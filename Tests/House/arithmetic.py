#!/usr/bin/env python3
"""Tests that the runtime does no floating-point arithmetic.
Otherwise malloc would set the program's flags (FE_INEXACT), or a program that traps them would die in free. Disassembles the built
libraries of both processors. Failures are instructions that can set a flag of MXCSR, the x87 unit or FPSR, and calls of libc functions that
do floating-point arithmetic. Closing line: N passed, N failed."""

import argparse
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support import builds  # noqa: E402
from Support.checks import Failed, run_tests  # noqa: E402
from Support.environment import HERE, ROOT  # noqa: E402

# Instructions allowed with vector registers: moves, fills, logic, and integer arithmetic. Every other instruction counts as arithmetic, so
# that an unknown instruction fails.
X86_VECTORS = re.compile(r"v?(mov[a-z0-9]+|lddqu|and[n]?p[sd]|x?orp[sd]|shufp[sd]|unpck[lh]p[sd]|blendv?p[sd]|insertps|extractps"
                         r"|p[a-z0-9]+|broadcast\w+|(insert|extract)[fi]\w+|perm\w+|gather\w+|maskmov\w+|testp[sd]|zeroupper|zeroall|align[dq]"
                         r"|aes\w+|sha\w+|gf2p8\w+|dbpsadbw)$")
# x87 and MMX instructions without a vector operand, and instructions that load the flags. `wait` is fwait.
X86_OTHERS = re.compile(r"(f\w+|v?ldmxcsr|xrstor\w*|emms|femms|wait)$")
X86_REGISTERS = re.compile(r"%([xyz]?mm|st\b)")
# Excludes saturating arithmetic (sq…, uq…, suqadd, usqadd), which sets FPSR.QC.
ARM_VECTORS = re.compile(r"(mov|movi|mvni|mvn|fmov|fcsel|dup|ins|[us]mov|ldn?[rp]|ldur|stn?[rp]|stur|ld[1-4]r?|st[1-4]|ext|tb[lx]|zip[12]|uzp[12]|trn[12]"
                         r"|rev(16|32|64)|rbit|xtn2?|[us]?shll2?|[us]xtl2?|and|orr|orn|eor|eor3|bcax|bic|bif|bit|bsl|not|neg|abs|add|sub|mul|ml[as]|addp|addv"
                         r"|[us](add[lw]|sub[lw]|abdl?|abal?|mull|ml[as]l|hadd|hsub|rhadd)2?|[us]add(lp|alp|lv)|[us](min|max)[pv]?"
                         r"|cm(eq|ge|gt|le|lt|hi|hs|tst)|cnt|cl[zs]|shl|s[lr]i|[us]r?sh[lr]|[us]r?sra|r?shrn2?|r?(add|sub)hn2?|pmull?2?|[us]dot|prfm)$")
ARM_OTHERS = re.compile(r"f(?!mov$|csel$)\w+$")  # arithmetic for every form of operands
ARM_REGISTERS = re.compile(r"\b[vz]\d+\.|(?<![#\w])[bhsdq]\d+\b")
ARM_FLAGS = re.compile(r"\bfp[sc]r\b", re.I)
# libc functions that do floating-point arithmetic (libm is not linked).
FUNCTIONS = re.compile(r"(strto(f|d|ld|f\d+x?)(_l)?|atof|wcsto(f|d|ld)|difftime|drand48|erand48|frexpf?l?|ldexpf?l?|modff?l?|scalbnf?l?|getloadavg|strfrom\w+|fe\w+except\w*)$")


def is_arithmetic(arch, mnemonic, operands):
    """Returns whether an instruction, as llvm-objdump prints it (AT&T), can set, clear or load a floating-point flag."""
    if arch == "x86_64":
        return bool(X86_OTHERS.match(mnemonic) or X86_REGISTERS.search(operands) and not X86_VECTORS.match(mnemonic) or re.search(r"%mm\d", operands))
    if mnemonic in ("msr", "mrs"):
        return mnemonic == "msr" and bool(ARM_FLAGS.search(operands))
    return bool(ARM_OTHERS.match(mnemonic) or ARM_REGISTERS.search(operands) and not ARM_VECTORS.match(mnemonic))


def objdump(*words):
    return builds.run_compiler([Path(builds.find_clang()).parent / "llvm-objdump", *words])


def arithmetic_of(arch, path):
    """Returns the number of all instructions, and a list with "FUNCTION: INSTRUCTION" for each arithmetic instruction."""
    count, found, function = 0, [], ""
    for line in objdump("-d", "--no-show-raw-insn", "--no-print-imm-hex", path).splitlines():
        if named := re.match(r"[0-9a-f]+ <(.*)>:$", line):
            function = named[1]
            continue
        code = re.match(r"\s*[0-9a-f]+:\s+(.*)", line)
        if not code or not code[1].strip():
            continue
        words = code[1].split("#")[0] if arch == "x86_64" else code[1].split("//")[0]
        words = re.sub(r"<[^>]*>", "", words)  # remove the symbol of the jump target
        mnemonic, _, operands = re.sub(r"^((lock|rep\w*|data16|cs|ds|es|fs|gs|notrack|bnd)\s+)+", "", words.strip()).partition("\t")
        mnemonic, _, more = mnemonic.partition(" ")
        count += 1
        if is_arithmetic(arch, mnemonic, f"{more} {operands}"):
            found.append(f"{function}: {' '.join(words.split())}")
    return count, found


def library(arch):
    """Builds the library with scripts/build if it is older than its sources; returns its path."""
    builds.run_compiler(["scripts/build", "--library", "--arch", arch], cwd=ROOT)
    return ROOT / "build" / (arch if arch != HERE else "") / "lib/libzguard.so"


# MARK: instructions that the rule must and must not find

FLAGS = {"x86_64": ["-mavx2"], "aarch64": []}
ARITHMETIC = {
    "sum": "double f(double a, double b) { return a + b; }",
    "difference": "float f(float a, float b) { return a - b; }",
    "product": "double f(double a, double b) { return a * b; }",
    "quotient": "double f(double a, double b) { return a / b; }",
    "root": "double f(double a) { return __builtin_sqrt(a); }",
    "from integer": "double f(long a) { return (double)a; }",
    "from unsigned": "double f(unsigned long a) { return (double)a; }",
    "to integer": "long f(double a) { return (long)a; }",
    "narrowed": "float f(double a) { return (float)a; }",
    "widened": "double f(float a) { return a; }",
    "compared": "int f(double a, double b) { return a < b; }",
    "equal": "int f(float a, float b) { return a == b; }",
    "smaller": "double f(double a, double b) { return a < b ? a : b; }",
    "many": "void f(double *a, long n) { for (long i = 0; i < n; i++) a[i] = a[i] * 3 + 1; }",
    "many from integers": "void f(double *a, int *b, long n) { for (long i = 0; i < n; i++) a[i] = b[i]; }",
    "scaled clock": "unsigned long f(unsigned long t, unsigned long n) { return (unsigned long)((double)t * 1024 / (double)n); }",
}
ARITHMETIC_OF = {
    "x86_64": {"x87": "long double f(long double a, long double b) { return a + b; }",
               "x87 loaded": "void f(long double *a, double b) { *a = b; }",
               "flags loaded": "void f(unsigned a) { __builtin_ia32_ldmxcsr(a); }",
               "fused": "__attribute__((target(\"fma\"))) double f(double a, double b, double c) { return __builtin_fma(a, b, c); }",
               "rounded": "__attribute__((target(\"sse4.1\"))) double f(double a) { return __builtin_rint(a); }",
               "without AVX": "__attribute__((target(\"no-avx\"))) double f(double a, double b) { return a + b; }"},
    "aarch64": {"saturating": "#include <arm_neon.h>\nuint64x2_t f(uint64x2_t a, uint64x2_t b) { return vqsubq_u64(a, b); }",
                "flags loaded": "void f(unsigned long a) { __asm__ volatile(\"msr fpsr, %0\" : : \"r\"(a)); }",
                "fused": "double f(double a, double b, double c) { return __builtin_fma(a, b, c); }",
                "rounded": "double f(double a) { return __builtin_rint(a); }"},
}
HARMLESS = {
    "filled": "void f(unsigned long *a, long n) { for (long i = 0; i < n; i++) a[i] = 0x5555555555555555; }",
    "copied": "void f(char *restrict a, const char *b) { __builtin_memcpy(a, b, 200); }",
    "moved": "double f(double *a, long i) { double b = a[i]; a[i] = a[i + 1]; return b; }",
    "integers": "long f(const int *a, const int *b, long n) { long s = 0; for (long i = 0; i < n; i++) s += a[i] * 5L ^ b[i] >> 3; return s; }",
    "largest": "int f(const int *a, long n) { int m = 0; for (long i = 0; i < n; i++) m = a[i] > m ? a[i] : m; return m; }",
    "bytes found": "int f(const char *a) { int n = 0; for (int i = 0; i < 64; i++) n += a[i] == 7; return n; }",
    "sign": "double f(double a) { return a; } long g(double a) { long b; __builtin_memcpy(&b, &a, 8); return b; }",
}


def compiled(directory, arch, name, text, extra=()):
    source = Path(directory) / f"{name.replace(' ', '-')}.c"
    source.write_text(text + "\n")
    target = source.with_suffix(".o")
    builds.run_compiler([builds.find_clang(), f"--target={arch}-linux-gnu", "-O3", "-ffreestanding", "-fno-math-errno", *extra, "-c", source, "-o", target])
    return target


def rule_is_right(arch, directory):
    for name, text in {**ARITHMETIC, **ARITHMETIC_OF[arch]}.items():
        for extra in ([], FLAGS[arch]) if FLAGS[arch] else ([],):
            count, found = arithmetic_of(arch, compiled(directory, arch, name, text, extra))
            assert count and found, f"{name} {extra}: no arithmetic found in {count} instructions"
    for name, text in HARMLESS.items():
        for extra in ([], FLAGS[arch]) if FLAGS[arch] else ([],):
            count, found = arithmetic_of(arch, compiled(directory, arch, name, text, extra))
            assert count and not found, f"{name} {extra}: {found}"


# This function of the runtime may contain arithmetic: it executes an instruction of the program on aligned copies of the operands, and
# loads and stores the program's vector registers around that instruction.
FOR_THE_PROGRAM = "zg_arch_unaligned_call: "


def library_calculates_with_integers(arch, _):
    count, found = arithmetic_of(arch, library(arch))
    assert count > 50000, f"only {count} instructions were read"
    found = [line for line in found if not line.startswith(FOR_THE_PROGRAM)]
    assert not found, f"{len(found)} of {count} instructions:\n        " + "\n        ".join(found[:20])


def library_calls_nothing_that_does(arch, _):
    said = objdump("-T", library(arch))
    asked = re.findall(r"\*UND\*\s.*?(\w+)$", said, re.M)
    assert len(asked) > 20, said[-500:]
    assert not (bad := [name for name in asked if FUNCTIONS.match(name)]), bad
    printing = [path for path in ROOT.glob("Sources/CZombie*/**/*.c") if re.search(r"printf\(", path.read_text())]
    formats = [f"{path.relative_to(ROOT)}: {form}" for path in printing
               for form in re.findall(r'"[^"\n]*%[-+ #0-9.*]*L?[aefgAEFG][^"\n]*"', path.read_text())]
    assert printing and not formats, formats


def library_compiles_elsewhere(_):
    """Checks the sources for the other processors without generating code: a fifth of the time of building their libraries."""
    for arch in FLAGS:
        if arch != HERE:
            builds.run_compiler(["bash", "-c", f"source scripts/common.sh && need_cross_compiler {arch}"], cwd=ROOT)
            flags = [flag for flag in builds.library_flags("compile") if flag != "-flto"]
            builds.run_compiler([builds.find_clang(), f"--target={arch}-linux-gnu", *flags, "-fsyntax-only", "-ISources/CZombie",
                                 "-ISources/CZombiePublish/include", *builds.sources_of(builds.RUNTIME), *builds.sources_of(builds.PUBLISH)], cwd=ROOT)


def main():
    parser = argparse.ArgumentParser(description="Finds floating-point arithmetic in the built libraries.")
    parser.add_argument("--filter", default="", metavar="SUBSTR", help="only tests whose name contains SUBSTR")
    parser.add_argument("-v", "--verbose", action="store_true", help="name the tests that pass, too")
    arguments = parser.parse_args()
    tests = [(f"{arch}: {test.__name__}", lambda directory, test=test, arch=arch: test(arch, directory))
             for arch in FLAGS for test in (rule_is_right, library_calculates_with_integers, library_calls_nothing_that_does)]
    tests.append((f"{HERE}: library_compiles_elsewhere", library_compiles_elsewhere))
    return run_tests(tests, "zguard-arithmetic-", arguments.filter, shows_passed=arguments.verbose)


if __name__ == "__main__":
    sys.exit(main())
