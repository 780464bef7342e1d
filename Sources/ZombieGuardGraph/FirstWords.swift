// The distinct first words of blocks that may be class pointers.

/// Numbers distinct words with an open-addressing hash table: millions of blocks have few distinct class pointers.
package final class FirstWords {
    private var slots: FlatArray<UInt32>
    /// The words, by number.
    package let words = FlatArray<UInt64>()
    private static let empty = UInt32.max
    /// Maximum number of distinct candidates. A heap with more has data in first words that resembles class pointers.
    package static let most = 1 << 20
    private let limit: Int

    package init(atMost limit: Int = FirstWords.most) {
        self.limit = limit
        slots = FlatArray(repeating: Self.empty, count: 1 << 12)
    }

    /// The number of a word, which is added if it is new; nil if there are too many words.
    @inline(__always)
    package func number(of word: UInt64) -> UInt32? {
        let mask = slots.count &- 1
        var index = Self.hash(word) & mask
        while true {
            let number = slots.base[index]
            if number == Self.empty { return add(word) }
            if words.base[Int(number)] == word { return number }
            index = (index &+ 1) & mask
        }
    }

    private static func hash(_ word: UInt64) -> Int {
        Int(truncatingIfNeeded: (word &* 0x9e37_79b9_7f4a_7c15) >> 32)
    }

    private func add(_ word: UInt64) -> UInt32? {
        if words.count >= limit { return nil }
        words.append(word)
        if words.count * 2 > slots.count {
            slots = FlatArray(repeating: Self.empty, count: slots.count * 2)
            for number in 0..<words.count - 1 { insert(number) }
        }
        insert(words.count - 1)
        return UInt32(words.count - 1)
    }

    private func insert(_ number: Int) {
        let mask = slots.count - 1
        var index = Self.hash(words[number]) & mask
        while slots[index] != Self.empty { index = (index + 1) & mask }
        slots[index] = UInt32(number)
    }
}
