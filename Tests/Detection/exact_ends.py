#!/usr/bin/env python3
"""Checks blocks that end exactly at the end of a page: over-reads of one byte, and programs that need more alignment than such a block has.

over-read   a loop without libc reads the byte behind a block. If the block holds a string, profile fence finds the over-read for every
            size, the default profile for even sizes, isolated_align=16 for multiples of 16 bytes.
alignment   blocks with unknown contents keep malloc's alignment. Blocks of up to 8 bytes are aligned to the next power of two, at least 2.
vectors     aligned vector instructions on a less aligned block: the program runs as without the runtime, also with signals blocked. Such
            an instruction is a finding if it reads beyond the block or after the free. After the first such fault, later blocks of the
            block's allocation stack keep malloc's alignment.
exceptions  if the runtime's fault handler could not continue a misaligned instruction (seccomp filter, handle_signals=0), all blocks keep
            malloc's alignment.
tags        a library with fontconfig's symbols keeps tags in the lowest bit of pointers to strings, so its strings never begin at odd
            addresses.
Closing line: N passed, N failed."""

import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support.checks import Checks, run_within  # noqa: E402
from Support.environment import ZGUARD, scrubbed  # noqa: E402

TIMEOUT_SECONDS = 60
COMPILE = ["gcc", "-std=gnu17", "-O1", "-g", "-fno-builtin", "-Wall", "-Wextra", "-Wno-use-after-free"]
SIZES = range(1, 65)

# usage: overread plain|string|copy NUMBER SIZE…: for each size a child makes NUMBER blocks, and reads the byte behind the last block. Mode
# string passes each block to strlen, mode copy makes each block by strdup. Prints how each child ended.
OVERREAD = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static __attribute__((noinline)) char *make(size_t size) {
    char *made = malloc(size);
    for (size_t i = 0; i < size; i++) made[i] = i + 1 < size ? 'a' : 0;
    return made;
}
static void read_behind(const char *mode, int number, size_t size) {
    char text[128], *block = NULL;
    memset(text, 'a', sizeof text);
    text[size - 1] = 0;
    volatile size_t sum = 0;
    for (int i = 1; i <= number; i++) {
        block = *mode == 'c' ? strdup(text) : make(size);
        if (*mode == 's') sum += strlen(block);
    }
    for (size_t i = 0; i <= size; i++) sum += ((volatile char *)block)[i];
    _exit(0);
}
int main(int count, char **words) {
    for (int i = 3; i < count; i++) {
        int status;
        fflush(stdout);
        if (!fork()) read_behind(words[1], atoi(words[2]), strtoul(words[i], NULL, 10));
        wait(&status);
        printf("%s %s\n", words[i], WIFSIGNALED(status) ? "found" : "missed");
    }
}
"""

# usage: alignment SIZE…: prints the largest power of two up to 16 that divides all addresses of eight blocks of each size.
ALIGNMENT = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
int main(int count, char **words) {
    for (int i = 1; i < count; i++) {
        uintptr_t all = 16;
        for (int j = 0; j < 8; j++) all |= (uintptr_t)malloc(strtoul(words[i], NULL, 10));
        printf("%s %d\n", words[i], (int)(all & -all));
    }
}
"""

# usage: vectors [MODE]: uses a block by aligned vector instructions. MODE masked: with all signals blocked; freed: after the block's free;
# beyond: from the block's last multiple of 16 bytes on.
VECTORS = r"""
#include <emmintrin.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
enum { SIZE = 49 };
static __attribute__((noinline)) char *make(void) {
    char *made = malloc(SIZE);
    memset(made, 'x', SIZE);
    made[SIZE - 1] = 0;
    return made;
}
static int work(volatile char *block) {
    __m128i *vectors = (__m128i *)(uintptr_t)block, sum = _mm_setzero_si128();
    int result;
    for (int i = 0; i < SIZE / 16; i++) __asm__ volatile("paddb %1, %0" : "+x"(sum) : "m"(vectors[i]));
    for (int i = 0; i < SIZE / 16; i++) __asm__ volatile("movdqa %1, %0" : "=m"(vectors[i]) : "x"(sum));
    __asm__ volatile("movd %1, %0" : "=r"(result) : "x"(sum));
    return result + block[17] + block[SIZE - 2];
}
int main(int count, char **words) {
    const char *mode = count > 1 ? words[1] : "";
    int is_used = 0, is_exact = 0, aligned = 0;
    volatile size_t length = 0;
    if (*mode == 'm') {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, NULL);
    }
    // One call of make, so that all blocks have the same stack.
    for (int i = 0; i < 20; i++) {
        char *block = make();
        if (!length) {
            length = strlen(block);
        } else if (is_used) {
            aligned += (uintptr_t)block % 16 == 0;
        } else if ((uintptr_t)block % 16 || i == 8) {
            is_used = 1;
            is_exact = (uintptr_t)block % 16 != 0;
            if (*mode == 'f') free(block);
            printf("%x\n", work(*mode == 'b' ? block + SIZE / 16 * 16 : block));
            fflush(stdout);
        }
    }
    fprintf(stderr, "exact %d, then aligned %d\n", is_exact, aligned);
}
"""

# usage: copies [filter]: prints the largest power of two up to 16 that divides all addresses of eight copies of a string of 13 bytes. With
# `filter`, the process first installs a seccomp filter that allows every system call.
COPIES = r"""
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
int main(int count, char **words) {
    struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog all = {1, &allow};
    uintptr_t addresses = 16;
    (void)words;
    if (count > 1 && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all))) return 1;
    for (int i = 0; i < 8; i++) addresses |= (uintptr_t)strdup("twelve bytes");
    printf("%d\n", (int)(addresses & -addresses));
}
"""

TAGS_LIBRARY = r"""
#include <stdint.h>
#include <string.h>
const char *FcConfigGetCurrent(void) { return "as in fontconfig"; }
int copies_are_even(const char *text) { return ((uintptr_t)strdup(text) & 1) == 0; }
"""
TAGS = r"""
#include <stdio.h>
#include <stdint.h>
#include <string.h>
int copies_are_even(const char *text);
int main(void) {
    int even = 1, odd = 0;
    for (int i = 0; i < 40; i++) even &= copies_are_even("even"), odd |= (int)((uintptr_t)strdup("even") & 1);
    printf("even %d, others odd %d\n", even, odd);
}
"""


class Programs:
    def __init__(self, directory):
        self.directory = Path(directory)
        self.make("overread", OVERREAD)
        self.make("alignment", ALIGNMENT)
        self.make("copies", COPIES)
        if platform.machine() == "x86_64":
            self.make("vectors", VECTORS)
        self.make("libtags.so", TAGS_LIBRARY, "-shared", "-fPIC")
        self.make("tags", TAGS, self.directory / "libtags.so", f"-Wl,-rpath,{self.directory}")

    def make(self, name, source, *further):
        path = self.directory / f"{name}.c"
        path.write_text(source)
        subprocess.run([*COMPILE, "-o", self.directory / name, path, *further], check=True)

    def run(self, options, name, *words):
        """Runs a program guarded; returns its status, standard output and standard error."""
        return run_within(TIMEOUT_SECONDS, [ZGUARD, "run", "-o", options, "--", self.directory / name, *map(str, words)], env=scrubbed())


def overread(programs, checks):
    every, even = set(SIZES), {size for size in SIZES if size % 2 == 0}
    small = {2, 4, 8} | {size for size in SIZES if size % 16 == 0}
    cases = [("profile=fence", "string", 3, every), ("profile=fence", "copy", 1, every), ("profile=fence", "plain", 3, small),
             ("profile=guard", "string", 3, even), ("profile=guard", "copy", 1, even), ("profile=guard", "plain", 3, small),
             ("profile=fence:isolated_align=16", "copy", 1, {size for size in SIZES if size % 16 == 0})]
    for options, mode, number, expected in cases:
        code, text, said = programs.run(options, "overread", mode, number, *SIZES)
        found = {int(size) for size in re.findall(r"^(\d+) found$", text or "", re.M)}
        problems = [f"status {code}: {said[-300:]}"] if code is None or len((text or "").split()) != 2 * len(SIZES) else []
        problems += [f"not found: {sorted(expected - found)}"] if expected - found else []
        problems += [f"found, though the end is not exact: {sorted(found - expected)}"] if found - expected else []
        wrong = len(re.findall(r"==zguard== (?!heap-overflow)\S+-\S+", said))
        problems += [f"{wrong} findings of another kind"] if wrong else []
        checks.check(f"over-read of block {number}, {mode}, {options}", problems)


def alignment(programs, checks):
    for options in "profile=fence", "profile=guard":
        code, text, said = programs.run(options, "alignment", *SIZES)
        got = {int(size): int(bytes_) for size, bytes_ in re.findall(r"^(\d+) (\d+)$", text or "", re.M)}
        wrong = {size: got.get(size) for size in SIZES if got.get(size, 0) < (16 if size > 8 else max(2, 1 << (size - 1).bit_length()))}
        checks.check(f"alignment of blocks with unknown contents, {options}", [f"alignments by size: {wrong}, {said[-200:]}"] if wrong else [])


def vectors(programs, checks):
    plain = subprocess.run([programs.directory / "vectors"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
    for options in "profile=fence:witnesses=1", "profile=fence:isolated_windows=off:isolated_align=8", "profile=fence:isolated_windows=off:isolated_align=1":
        for mode in "go", "masked":
            code, text, said = programs.run(options, "vectors", mode)
            problems = [] if code == 0 and text == plain else [f"status {code}, {text!r} instead of {plain!r}: {said[-300:]}"]
            counts = re.search(r"exact (\d+), then aligned (\d+)", said)
            is_auto = "align" not in options
            if "=8" not in options and (not counts or counts[1] != "1"):
                problems.append(f"no block was less aligned: {said[-200:]}")
            if is_auto and counts and int(counts[2]) < 8:  # all that are not used
                problems.append(f"blocks are not aligned after the fault: {counts[0]}")
            checks.check(f"vector instructions, {mode}, {options}", problems)
    for mode, kind in ("freed", "use-after-free"), ("beyond", "heap-overflow"):
        code, _, said = programs.run("profile=fence", "vectors", mode)
        checks.check(f"vector instructions, {mode}", [] if re.search(rf"==zguard== {kind}: (?:read|.*\bread)", said) and code not in (0, None)
                     else [f"status {code}: {said[:300]}"])


def exceptions(programs, checks):
    fence = "profile=fence"
    for options, words, wanted in ((fence, (), 1), (fence, ("filter",), 16), (f"{fence}:handle_signals=0", (), 16), (f"{fence}:isolated_align=16", (), 16),
                                   ("profile=guard", (), 2)):
        code, text, said = programs.run(options, "copies", *words)
        checks.check(f"copies of strings, {options} {' '.join(words)}", [] if code == 0 and text == f"{wanted}\n"
                     else [f"status {code}, aligned to {text!r}, expected {wanted}: {said[-200:]}"])


def tags(programs, checks):
    for options, others in ("profile=fence", "1"), ("profile=guard", "0"):
        code, text, said = programs.run(options, "tags")
        checks.check(f"tags in the lowest bit, {options}",
                     [] if code == 0 and text == f"even 1, others odd {others}\n" else [f"status {code}, {text!r}: {said[-200:]}"])


def main():
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="zguard-exact-") as directory:
        programs = Programs(directory)
        overread(programs, checks)
        alignment(programs, checks)
        exceptions(programs, checks)
        tags(programs, checks)
        if platform.machine() == "x86_64":
            vectors(programs, checks)
    return checks.close()


if __name__ == "__main__":
    sys.exit(main())
