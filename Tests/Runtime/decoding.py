#!/usr/bin/env python3
"""Compares the runtime's decoding of random AArch64 instructions with that of llvm-objdump from the Swift toolchain.

Compares the access (read, write, branch), the base register, and the offset of tens of thousands of words of each class of
encodings. The words are the same in every run. Closing line: N passed, N failed.

usage: Tests/Runtime/decoding.py [--words N]      N words of each class (50000)
"""

import argparse
import random
import re
import struct
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support import builds  # noqa: E402
from Support.checks import Checks  # noqa: E402
from Support.environment import RUNTIME, TESTS  # noqa: E402

BUILD = builds.BUILD / "decoding"
SOURCE = TESTS / "Runtime/Decoding/tell.c"
DECODER = RUNTIME / "platform/arch_aarch64_decode.c"
NOTHING, READ, WRITE, EXECUTE = range(4)
NO_REGISTER = 255

# Values of the fixed bits, and their mask; all other bits are random.
CLASSES = {"loads and stores": (0x08000000, 0x0a000000), "scalable vectors": (0x84000000, 0x9e000000),
           "branches to registers": (0xd61f0000, 0xfe1ff000), "the cache": (0xd50b7000, 0xfffff000)}
BRANCHES = re.compile(r"(br|blr|ret)(a[ab]z?)?(sppcr)?$")
MODIFIES = re.compile(r"ldt?b?f?(add|clr|eor|set|smax|smin|umax|umin|max|min)")


def words_of(name, count):
    value, mask = CLASSES[name]
    draw, words = random.Random(name), []
    for _ in range(count):
        word = draw.getrandbits(32)
        for place in (10, 16):  # register fields that must be all ones or all zeros in many encodings
            word = draw.choice((word, word, word, word | 31 << place, word & ~(31 << place)))
        words.append(word & ~mask & 0xffffffff | value)
    return words


def told_by_objdump(tools, words):
    raw, made = BUILD / "words.bin", BUILD / "words.o"
    raw.write_bytes(struct.pack(f"<{len(words)}I", *words))
    subprocess.run([tools / "llvm-objcopy", "-I", "binary", "-O", "elf64-littleaarch64", "--rename-section=.data=.text,alloc,load,readonly,code",
                    raw, made], check=True)
    out = subprocess.run([tools / "llvm-objdump", "-d", "--mattr=+all", "--no-show-raw-insn", "--no-leading-addr", made],
                         check=True, capture_output=True, text=True).stdout
    return [re.sub(r"\s*//.*", "", line).strip() for line in out.splitlines() if line.startswith(("\t", "  "))]


def number(register):
    return 31 if register in ("sp", "xzr") else int(register[1:]) if re.fullmatch(r"x\d+", register) else NO_REGISTER


def meaning(text):
    """Returns (access, base, offset); base or offset is None if the text does not show it."""
    name, _, operands = text.partition("\t")
    if name.startswith("ret") and "a" in name:
        return EXECUTE, 30, None
    if BRANCHES.fullmatch(name):
        return EXECUTE, number(operands.split(",")[0]) if operands else 30, None
    if name in ("dc", "ic"):
        is_zero = re.match(r"(zva|gva|gzva),", operands)
        return WRITE if is_zero else READ, None, None
    if name.startswith(("gcsss", "gcsp", "trc")) or name in ("sys", "cfp", "cpp", "dvp", "cosp", "drps", "eret", "eretaa", "eretab"):
        return NOTHING, None, None
    place = re.search(r"(?<!})\[([^]]*)](?=!|, #|, x|$)", operands)
    does = WRITE if name.startswith(("st", "sw", "cas", "cpy", "set", "gcs", "rcw")) or MODIFIES.match(name) else READ
    if not place:
        return does, None, None
    parts = place[1].split(", ")
    if name.startswith(("cpy", "set")):
        return does, number(parts[0]), None
    offset = int(parts[1][1:], 0) if len(parts) > 1 and parts[1][0] == "#" and "mul vl" not in place[1] else 0
    return does, number(parts[0]), offset if "z" not in operands.split("[")[0] and "p" not in operands.split("[")[0] else None


def differs(text, told):
    """Returns False if the text and the decoder agree, or if objdump does not know the instruction."""
    does, base, offset = told
    if text == "<unknown>":
        return False
    wanted, its_base, its_offset = meaning(text)
    if wanted != does:
        return True
    return its_base not in (None, base) or its_offset not in (None, offset)


def main():
    parser = argparse.ArgumentParser(description="Compares the runtime's decoder of AArch64 instructions with llvm-objdump.")
    parser.add_argument("--words", type=int, default=50000, help="of each class")
    arguments = parser.parse_args()
    clang = Path(builds.find_clang())
    tell = builds.compiled(BUILD / "tell", [clang, "-std=c17", "-O1", "-Wall", "-Wextra", "-Werror", "-DZG_ARCH_FOREIGN", f"-I{RUNTIME}", SOURCE,
                                            DECODER, "-o", BUILD / "tell"], [SOURCE, DECODER, DECODER.with_suffix(".h")])
    checks = Checks()
    for name in CLASSES:
        words = words_of(name, arguments.words)
        texts = told_by_objdump(clang.parent, words)
        lines = subprocess.run([tell], input=struct.pack(f"<{len(words)}I", *words), capture_output=True, check=True).stdout.decode().splitlines()
        told = [tuple(map(int, line.split())) for line in lines]
        problems = [f"{word:08x} {text}: {it}" for word, text, it in zip(words, texts, told) if differs(text, it)]
        known = sum(text != "<unknown>" for text in texts)
        if len(texts) != len(words) or known < len(words) // 100:
            problems.append(f"{len(texts)} lines for {len(words)} words, {known} of them known")
        checks.check(f"{name}: {known} instructions", problems[:20], shows_passed=True)
    return checks.close()


if __name__ == "__main__":
    sys.exit(main())
