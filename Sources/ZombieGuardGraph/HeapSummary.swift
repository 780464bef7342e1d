// Adds up the live blocks of a heap by class, by allocation stack, and by size.

import CZombie
import ZombieGuard

/// What a heap consists of.
package struct HeapSummary {
    /// Number and requested bytes of some blocks.
    package struct Amount: Hashable, Sendable, BitwiseCopyable {
        package var blocks = 0
        package var bytes: UInt64 = 0

        package init(blocks: Int = 0, bytes: UInt64 = 0) {
            self.blocks = blocks
            self.bytes = bytes
        }
    }

    /// Blocks of one class, or of no known class and one allocation function.
    package struct ClassRow {
        /// Name of the class; nil if the blocks hold no objects of a known class.
        package var name: String?
        package var language: Finding.Block.Language
        /// Allocation function, such as `malloc`.
        package var family: String
        package var amount: Amount

        /// The name, or the allocation function in parentheses. Not safe to print.
        package var label: String { name ?? "(\(family))" }
    }

    /// Blocks of one allocation stack.
    package struct StackRow {
        /// Equal for equal stacks of other processes with the same binaries: see ``Finding/Stacks/identity(of:)``.
        package var identity: UInt64
        /// Frames without symbols, innermost first; empty if the stack is unknown.
        package var frames: [Finding.Frame]
        package var amount: Amount
    }

    /// Blocks whose size is at most `most` and greater than half of it.
    package struct SizeRow {
        package var most: UInt64
        package var amount: Amount
    }

    package private(set) var total = Amount()
    /// Rows with the most bytes first.
    package private(set) var classes: [ClassRow] = []
    package private(set) var stacks: [StackRow] = []
    /// Rows with the smallest sizes first.
    package private(set) var sizes: [SizeRow] = []

    package init(_ snapshot: HeapSnapshot, _ table: ClassTable) {
        let blocks = snapshot.blocks
        let numbers = FirstWords(atMost: Int(UInt32.max))
        let byStack = FlatArray<Amount>()
        var bySize = [Amount](repeating: Amount(), count: 65)
        let families = Int(zg_family_count.rawValue)
        // The last rows are those of the allocation functions.
        let byClass = FlatArray<Amount>(repeating: Amount(), count: snapshot.firstWords.words.count + 8)
        let plain = snapshot.firstWords.words.count
        for block in 0..<UInt32(blocks.count) {
            let size = blocks.size(of: block)
            total.blocks += 1
            total.bytes &+= size
            let stack = Int(numbers.number(of: UInt64(blocks.stacks.base[Int(block)])) ?? 0)
            if stack == byStack.count { byStack.append(Amount()) }
            byStack.base[stack].blocks += 1
            byStack.base[stack].bytes &+= size
            let row = table.number(of: block) ?? plain + Int(blocks.family(of: block))
            byClass.base[row].blocks += 1
            byClass.base[row].bytes &+= size
            let bucket = size <= 16 ? 4 : 64 - (size - 1).leadingZeroBitCount
            bySize[bucket].blocks += 1
            bySize[bucket].bytes &+= size
        }
        for bucket in bySize.indices where bySize[bucket].blocks > 0 {
            sizes.append(SizeRow(most: bucket == 64 ? .max : 1 << UInt64(bucket), amount: bySize[bucket]))
        }
        var merged: [ClassTable.Label: Amount] = [:]
        for row in 0..<plain where byClass[row].blocks > 0 {
            merged[table.label(row), default: Amount()].blocks += byClass[row].blocks
            merged[table.label(row), default: Amount()].bytes += byClass[row].bytes
        }
        classes = merged.map { label, amount in
            ClassRow(
                name: label.name ?? label.symbol.flatMap { CxxName.className(typeinfo: $0) }, language: label.language,
                family: label.language == .swift ? "Swift object" : "C++ object", amount: amount)
        }
        for family in 0..<families where byClass[plain + family].blocks > 0 {
            let name = zg_block_family_text(UInt32(family)).map { String(cString: $0) } ?? "unknown"
            classes.append(
                ClassRow(name: nil, language: .unknown, family: name, amount: byClass[plain + family]))
        }
        classes.sort { ($1.amount.bytes, $0.label) < ($0.amount.bytes, $1.label) }
        var frames = FrameReader(snapshot.source)
        stacks = (0..<byStack.count).map { number in
            let stack = frames.stack(UInt32(truncatingIfNeeded: numbers.words[number]))
            return StackRow(identity: Finding.Stacks.identity(of: stack) ?? 0, frames: stack, amount: byStack[number])
        }
        stacks.sort { ($1.amount.bytes, $0.identity) < ($0.amount.bytes, $1.identity) }
    }
}
