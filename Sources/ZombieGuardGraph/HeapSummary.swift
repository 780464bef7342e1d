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

        package mutating func add(bytes size: UInt64) {
            blocks += 1
            bytes &+= size
        }

        mutating func add(_ other: Amount) {
            blocks += other.blocks
            bytes &+= other.bytes
        }
    }

    /// Blocks of one class, or of no known class and one allocation function.
    package struct ClassRow {
        /// Name of the class; nil if the blocks hold no objects of a known class.
        package var name: String?
        package var language: Finding.Block.Language
        /// Allocation function, such as `malloc`, if the class is unknown; otherwise "Swift object" or "C++ object".
        package var family: String
        package var amount: Amount
        /// Blocks that were in an earlier snapshot.
        package var survivors = Amount()

        /// The name, or the allocation function in parentheses. Not safe to print.
        package var label: String { name ?? "(\(family))" }
    }

    /// Blocks of one allocation stack.
    package struct StackRow {
        /// Identity of the stack, equal in other processes with the same binaries: see
        /// ``Finding/Stacks/identity(of:)``.
        package var identity: UInt64
        /// Frames without symbols, innermost first; empty if the stack is unknown.
        package var frames: [Finding.Frame]
        package var amount: Amount
        /// Blocks that were in an earlier snapshot.
        package var survivors = Amount()
    }

    /// Blocks whose size is at most `most` and greater than half of it. The row of 16 bytes has all smaller blocks as
    /// well.
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

    /// Adds up all blocks.
    ///
    /// - Parameters:
    ///   - ages: ages of the blocks; nil if there was no earlier snapshot.
    ///   - stackSource: a second reader of the snapshot's source, because the snapshot has spent most of its read
    ///     budget; nil: do not sum up by stack and size.
    package init(
        _ snapshot: HeapSnapshot, _ table: ClassTable, ages: HeapAges? = nil, stackSource: HeapReader? = nil
    ) {
        let blocks = snapshot.blocks
        let plain = snapshot.firstWords.words.count
        // The last rows are for blocks without a known class, by allocation function.
        let byClass = FlatArray<Pair>(repeating: Pair(), count: plain + 8)
        let numbers = FirstWords(atMost: Int(UInt32.max))
        let byStack = FlatArray<Pair>()
        var bySize = [Amount](repeating: Amount(), count: 65)
        for block in 0..<UInt32(blocks.count) {
            let size = blocks.size(of: block)
            let isOld = ages?.isOld(block) ?? false
            total.add(bytes: size)
            byClass.base[table.number(of: block) ?? plain + Int(blocks.family(of: block))].add(size, isOld)
            if stackSource == nil { continue }
            let stack = Int(numbers.number(of: UInt64(blocks.stacks.base[Int(block)])) ?? 0)
            if stack == byStack.count { byStack.append(Pair()) }
            byStack.base[stack].add(size, isOld)
            bySize[size <= 16 ? 4 : 64 - (size - 1).leadingZeroBitCount].add(bytes: size)
        }
        for bucket in bySize.indices where bySize[bucket].blocks > 0 {
            sizes.append(SizeRow(most: bucket == 64 ? .max : 1 << UInt64(bucket), amount: bySize[bucket]))
        }
        classes = Self.classRows(byClass, table, plain)
        guard let stackSource else { return }
        // Read the largest stacks first: the read budget may not suffice for all.
        var frames = FrameReader(stackSource)
        let order = (0..<byStack.count).sorted { byStack[$1].all.bytes < byStack[$0].all.bytes }
        stacks = order.map { number in
            let stack = frames.stack(UInt32(truncatingIfNeeded: numbers.words[number]))
            return StackRow(
                identity: Finding.Stacks.identity(of: stack) ?? 0, frames: stack, amount: byStack[number].all,
                survivors: byStack[number].old)
        }
        stacks.sort { ($1.amount.bytes, $0.identity) < ($0.amount.bytes, $1.identity) }
    }

    /// All blocks of a row, and those that were in an earlier snapshot.
    private struct Pair: BitwiseCopyable {
        var all = Amount()
        var old = Amount()

        mutating func add(_ size: UInt64, _ isOld: Bool) {
            all.add(bytes: size)
            if isOld { old.add(bytes: size) }
        }
    }

    // Merges rows of the same class, because a class may have several class pointers.
    private static func classRows(_ byClass: FlatArray<Pair>, _ table: ClassTable, _ plain: Int) -> [ClassRow] {
        var merged: [ClassTable.Label: ClassRow] = [:]
        for row in 0..<plain where byClass[row].all.blocks > 0 {
            let label = table.label(row)
            var sum =
                merged[label]
                ?? ClassRow(
                    name: label.name ?? label.symbol.flatMap { CxxName.className(typeinfo: $0) },
                    language: label.language, family: label.language == .swift ? "Swift object" : "C++ object",
                    amount: Amount())
            sum.amount.add(byClass[row].all)
            sum.survivors.add(byClass[row].old)
            merged[label] = sum
        }
        var rows = Array(merged.values)
        for family in 0..<Int(zg_family_count.rawValue) where byClass[plain + family].all.blocks > 0 {
            let name = zg_block_family_text(UInt32(family)).map { String(cString: $0) } ?? "unknown"
            let pair = byClass[plain + family]
            rows.append(
                ClassRow(name: nil, language: .unknown, family: name, amount: pair.all, survivors: pair.old))
        }
        return rows.sorted { ($1.amount.bytes, $0.label) < ($0.amount.bytes, $1.label) }
    }
}
