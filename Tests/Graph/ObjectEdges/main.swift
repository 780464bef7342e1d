// Prints what each word of random Swift objects of a guarded process refers to, for Tests/Graph/edges.py.
// usage: ObjectEdges PID SEED COUNT
// Each line: address of the object, its metadata, its class, then the kind of each word from offset 16 on.

import ZombieGuard
import ZombieGuardGraph

/// A fixed sequence of pseudo-random numbers (SplitMix64).
struct SeededNumbers: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ mixed >> 30) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ mixed >> 27) &* 0x94d0_49bb_1331_11eb
        return mixed ^ mixed >> 31
    }
}

let mostWords = 4096
let words = CommandLine.arguments
guard words.count == 4, let processID = Int(words[1]), let seed = UInt64(words[2]), let count = Int(words[3]) else {
    fatalError("usage: ObjectEdges PID SEED COUNT")
}
let snapshot = try HeapSnapshot.of(GuardedProcess(processID: processID), .blocks)
let classes = ClassTable(snapshot)
var random = SeededNumbers(state: seed)
let objects = (0..<UInt32(snapshot.blocks.count)).filter(classes.isSwift).shuffled(using: &random).prefix(count)
for block in objects {
    guard let number = classes.number(of: block), let known = classes.class(of: block) else { continue }
    let start = snapshot.blocks.starts[Int(block)]
    let size = min(Int(snapshot.blocks.size(of: block) / 8), mostWords)
    let contents = snapshot.source.memory.records(UInt64.self, at: start, count: size)
    let layout = classes.layout(number)
    let kinds = contents.indices.dropFirst(2).map { "\(layout.kind(at: UInt64($0) * 8, of: start, contents))" }
    let name = (classes.label(number).name ?? "?").replacing(" ", with: "_")
    print(start, known.pointer, name, kinds.joined(separator: " "))
}
