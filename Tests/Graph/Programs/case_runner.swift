// Runs one case of the program that it is compiled with. Arguments: the case's name; "fixed" for the corrected twin;
// "wait" to print "ready" after the case and wait for the end of standard input.

import Glibc

// Overwrites dead stack frames, in which references may be left over.
@inline(never) func scrub(_ depth: Int) -> Int {
    // Larger allocations would be on the heap.
    let sum = withUnsafeTemporaryAllocation(byteCount: 1000, alignment: 16) { room in
        _ = memset(room.baseAddress!, 0, room.count)
        return depth == 0 ? 0 : scrub(depth - 1)
    }
    return sum + depth
}

@inline(never) func runCase(_ name: String, _ isFixed: Bool) -> Bool {
    guard let chosen = cases.first(where: { $0.name == name }) else { return false }
    chosen.run(isFixed)
    return true
}

@main enum Runner {
    static func main() {
        let words = CommandLine.arguments
        guard words.count > 1, runCase(words[1], words.contains("fixed")) else { exit(2) }
        _ = scrub(50)
        if words.contains("wait") {
            print("ready")
            fflush(nil)
            while readLine() != nil {}
        }
    }
}
