// The vocabulary of findings: kinds of bugs, and kinds of access to memory.
// Names in reports, SARIF rules, HTML headings and the table in docs/FINDINGS.md come from these rows, and tests
// compare hand-written tables with them. A new kind also needs a detector, its sentence (Headline.swift), and a folder
// in Tests/Bugs.

#ifndef ZG_FINDING_KINDS_H
#define ZG_FINDING_KINDS_H

#include <stdbool.h>
#include <stdint.h>

// The most serious kind comes first. Columns: identifier; name in reports; whether on_finding=abort ends the program
// (faults end it anyway, mismatches never do); SARIF level; CWE number; one sentence; explanation; advice.
#define ZG_FINDING_KINDS(X)                                                                                            \
    X(use_after_free, "use-after-free", false, "error", 416, "The program used memory that it had freed.",             \
      "The memory belonged to a block that was freed before. What is there now is what the guard left, or, "           \
      "without it, "                                                                                                   \
      "whatever was allocated next: the program reads wrong values, damages other data, or crashes far from "          \
      "the cause.",                                                                                                    \
      "Compare the three stacks: who used the block, who freed it, who allocated it. Either the user has to "          \
      "keep it alive "                                                                                                 \
      "(hold a strong reference, own a copy), or has to be told that it is gone.")                                     \
    X(write_after_free, "write-after-free", true, "error", 416, "Memory changed after the program had freed it.",      \
      "The contents of a freed block are not what the guard left there. The write itself was not seen: the "           \
      "first stack "                                                                                                   \
      "shows where the change was noticed, which may be much later and in other code.",                                \
      "Look for pointers to the block that outlive the place where it was freed. With 'zguard run --profile "          \
      "fence' the "                                                                                                    \
      "write is caught at the instruction that does it.")                                                              \
    X(double_free, "double-free", true, "error", 415, "The program freed a block twice.",                              \
      "The block had been freed already. Without a guard the second free damages the allocator's own data, "           \
      "or frees a "                                                                                                    \
      "block that was allocated again meanwhile.",                                                                     \
      "Decide which of the two places owns the block; the other must not free it.")                                    \
    X(invalid_free, "invalid-free", true, "error", 763, "The program freed something that no allocation returned.",    \
      "The pointer given to free is not the beginning of a block: it points into one, to the stack, to "               \
      "static data, or to "                                                                                            \
      "nothing at all.",                                                                                               \
      "Free exactly the pointer that the allocation returned, and only if it came from one.")                          \
    X(heap_overflow, "heap-overflow", true, "error", 787, "The program touched memory beside a block.",                \
      "The access went beyond the end of a block, or before its beginning. Without a guard it reads or damages the "   \
      "neighbouring block.",                                                                                           \
      "Check the length or index against the size that the block was allocated with.")                                 \
    X(dealloc_mismatch, "dealloc-mismatch", false, "warning", 762,                                                     \
      "A block was freed by a function that does not belong to its allocation.",                                       \
      "Blocks from malloc belong to free, from new to delete, from new[] to delete[], and a size given to the "        \
      "deallocation has to be the one that was asked for. Other pairs work with some allocators by accident.",         \
      "Use the deallocation that belongs to the allocation.")                                                          \
    X(wild_access, "wild-access", false, "error", 119, "The program touched an address where it has no memory.",       \
      "The address belongs to no block that the guard knows, live or freed. The pointer was damaged, never "           \
      "initialised, "                                                                                                  \
      "or computed wrongly.",                                                                                          \
      "Follow the pointer back from the first stack to where it was made.")                                            \
    X(null_access, "null-access", false, "error", 476, "The program followed a null pointer.",                         \
      "The address lies in the first page, where a null pointer, or a field of what it points to, is.",                \
      "Check the pointer before it is followed, or find out why it is null.")                                          \
    X(stack_overflow, "stack-overflow", false, "error", 674, "A thread ran out of stack.",                             \
      "The recursion is too deep, or a local variable too large, for the stack of this thread.",                       \
      "Look for the function that repeats in the stack.")                                                              \
    X(exclusivity, "exclusivity", false, "error", 662,                                                                 \
      "Two accesses to one variable overlapped, one of them a write.",                                                 \
      "Swift forbids a second access to a variable while it is modified, and the Swift runtime ended the "             \
      "program because "                                                                                               \
      "of one. Without its check the second access would have seen, or changed, a value that is half written.",        \
      "End the first access before the second begins: copy the value out, change the copy, and store it "              \
      "back; or pass "                                                                                                 \
      "what the inner code needs as an argument.")                                                                     \
    X(crash, "crash", false, "error", 248, "A signal ended the program.",                                              \
      "The program ended itself (abort, a trap, an exception that nobody caught), or the kernel ended it, "            \
      "and no misuse "                                                                                                 \
      "of memory that the guard knows explains it.",                                                                   \
      "Read the message and the stack of the thread that died; the stacks of the others show what they did "           \
      "meanwhile.")                                                                                                    \
    X(stall, "stall", false, "warning", 1322, "A thread did not wait for events for too long.",                        \
      "Everything that needs the thread waits meanwhile: a window does not move, requests are not answered. "          \
      "Between "                                                                                                       \
      "two calls of poll, select or epoll_wait it computed, or waited for something else, such as a lock or "          \
      "a file.",                                                                                                       \
      "The stack shows what took longest. Move it to another thread, or do it in smaller pieces. If the "              \
      "thread waited for "                                                                                             \
      "a lock, the stack of the lock's holder is shown, too.")                                                         \
    X(deadlock, "deadlock", false, "error", 833, "Threads wait for each other's locks, and none can go on.",           \
      "Each thread on the circle waits for a lock that the next one holds, or for its end, and the last one waits "    \
      "for the first. A thread may also wait for a lock that it holds itself. None of these waits has a limit.",       \
      "Take locks in the same order everywhere, or let go of one before another is taken. Never wait for a thread "    \
      "while holding what it needs.")                                                                                  \
    X(leak, "leak", false, "warning", 401, "Nothing in the program refers to a block that it has not freed.",          \
      "No global, stack, register, thread-local variable or reachable block holds an address in the block, so the "    \
      "program can neither use nor free it. Blocks that only lost blocks refer to are counted with them.",             \
      "The stack shows the allocation. Free the block on every path on which its last pointer goes out of scope or "   \
      "is overwritten, such as early returns and errors.")                                                             \
    X(retain_cycle, "retain-cycle", false, "warning", 401, "Objects keep only each other alive.",                      \
      "Each object on the cycle holds a strong reference to the next one, and nothing else in the program leads to "   \
      "them. Reference counting never frees them.",                                                                    \
      "Make one reference weak or unowned: usually that of the part to its owner, or a closure's capture of self "     \
      "([weak self]). Or end it when the work is done.")

enum zg_finding_kind {
#define ZG_X(name, ...) zg_finding_##name,
    ZG_FINDING_KINDS(ZG_X)
#undef ZG_X
        zg_finding_kind_count
};

// Columns: identifier; name in reports; participle, as in "written by thread 2"; noun, as in "write at 0x10".
#define ZG_ACCESSES(X)                                                                                                 \
    X(read, "read", "read", "read")                                                                                    \
    X(write, "write", "written", "write")                                                                              \
    X(call, "call", "called", "call")                                                                                  \
    X(retain, "retain", "retained", "retain")                                                                          \
    X(release, "release", "released", "release")                                                                       \
    X(cast, "cast", "cast", "cast")                                                                                    \
    X(free, "free", "freed", "free")                                                                                   \
    X(unknown, "unknown", "used", "access")

enum zg_access {
#define ZG_X(name, ...) zg_access_##name,
    ZG_ACCESSES(ZG_X)
#undef ZG_X
        zg_access_count
};

// exact: certain. inferred: the most likely explanation of several.
#define ZG_CONFIDENCES(X) X(exact, "exact") X(inferred, "inferred")

enum zg_confidence {
#define ZG_X(name, text) zg_confidence_##name,
    ZG_CONFIDENCES(ZG_X)
#undef ZG_X
        zg_confidence_count
};

// Tables for readers of reports. No code in a guarded process uses them, and the library does not contain them.
struct zg_finding_kind_info {
    const char *name;
    bool fatal;
    const char *level;
    uint32_t weakness;
    const char *summary, *explanation, *help;
};
struct zg_access_info {
    const char *name, *done, *noun;
};
extern const struct zg_finding_kind_info zg_finding_kind_table[zg_finding_kind_count];
extern const struct zg_access_info zg_access_table[zg_access_count];
extern const char *const zg_confidence_names[zg_confidence_count];

#endif
