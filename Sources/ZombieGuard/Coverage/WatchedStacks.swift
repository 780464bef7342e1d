// Tells the runtime which allocation stacks earlier runs watched (stacks/watched.c).

extension PairCoverage {
    /// The file that tells the runtime which allocation stacks were watched: in the machine's byte order, the number of
    /// stacks, then their identities, sorted. The lowest bit of an identity is replaced by a flag that is set if only a
    /// part of the stack's pairs was watched. Stacks of which no pair was watched are left out.
    package var watchedStacks: [UInt8] {
        var stacks: [UInt64: (pairs: Int, watched: Int)] = [:]
        for (pair, count) in pairs {
            stacks[pair.alloc & ~1, default: (0, 0)].pairs += 1
            if count.watched > 0 { stacks[pair.alloc & ~1, default: (0, 0)].watched += 1 }
        }
        let words = stacks.filter { $0.value.watched > 0 }.map { $0.key | ($0.value.watched < $0.value.pairs ? 1 : 0) }
        return ([UInt64(words.count)] + words.sorted()).flatMap { word in withUnsafeBytes(of: word) { Array($0) } }
    }
}
