// A global variable is modified while a function has exclusive access to it as an inout argument.
// finding: exclusivity
// access: write
// stack-access: ~change
// stack-previous: - (the place is the program's own top level)
// detail: previous="write"
// exit: 134

nonisolated(unsafe) var level = 1

@inline(never)
func change(_ value: inout Int, _ body: () -> Void) {
    body()
    value += 1
}

#if FIXED
change(&level) {}
level += 1
#else
change(&level) { level += 1 }
#endif
print("level", level)
