// From addresses to units, without reading more of large debug information than that takes.

import CDwarf

/// Finds the units of addresses. gcc lists the addresses of its units in .debug_aranges, which is read first; clang and
/// Swift do not, so the first entry of every other unit is read once an address is not found there.
final class DwarfUnitIndex {
    /// Addresses of a unit, in little room: a large program has a million of these.
    private struct Entry {
        var start: UInt64
        var size: UInt32
        /// Place in the list of units.
        var unit: UInt32
    }

    private let file: DwarfFile
    // Of units that are in use, and of all that are not in .debug_aranges.
    private var known: [UInt64: UInt64?] = [:]
    private var listed: Set<UInt64> = []
    private var isListRead = false
    private lazy var others = readOthers()
    private var otherUnits: [UInt64] = []

    init(_ file: DwarfFile) { self.file = file }

    /// The unit that an address belongs to; nil where there is none. `addresses` are looked up together.
    func unit(of address: UInt64) -> DwarfUnit? {
        if known[address] == nil { find([address]) }
        return (known[address] ?? nil).flatMap { file.unit(at: $0) }
    }

    /// Looks addresses up, in one pass of .debug_aranges.
    func find(_ addresses: some Sequence<UInt64>) {
        let new = Set(addresses).filter { known[$0] == nil }.sorted()
        if new.isEmpty { return }
        for address in new { known[address] = .some(nil) }
        readAddressRanges(new)
        for case let unit? in new.map({ known[$0] ?? nil }) { ELFFile.willRead(file.info, at: unit) }
        let left = new.filter { known[$0] == .some(nil) }
        guard let first = left.first, let last = left.last else { return }
        for entry in others
        where entry.start <= last && (entry.start >= first || first - entry.start < UInt64(entry.size)) {
            var index = partition(left.count) { left[$0] >= entry.start }
            while index < left.count, left[index] - entry.start < UInt64(entry.size) {
                known[left[index]] = otherUnits[Int(entry.unit)]
                index += 1
            }
        }
    }

    /// Reads .debug_aranges: a header for each unit, then pairs of address and length, ended by zeros.
    private func readAddressRanges(_ addresses: [UInt64]) {
        let section = file.addressRanges
        guard let first = addresses.first, let last = addresses.last else { return }
        ELFFile.fetch(section)
        var cursor = ByteCursor(section)
        while !cursor.isAtEnd, !cursor.failed {
            let start = cursor.position
            var length = UInt64(cursor.number(UInt32.self))
            var offsetSize = 4
            if length == 0xffff_ffff {
                length = cursor.number()
                offsetSize = 8
            }
            guard !cursor.failed, length <= UInt64(section.count) - cursor.position else { return }
            var table = ByteCursor(section, at: cursor.position, end: cursor.position + length)
            cursor.skip(length)
            table.skip(2)
            let unit = table.number(bytes: offsetSize)
            let addressSize: UInt8 = table.number()
            let segmentSize: UInt8 = table.number()
            guard addressSize == 8, segmentSize == 0 else { continue }
            // Pairs are aligned to their size, counted from the header.
            table.skip((16 - (table.position - start) % 16) % 16)
            var isEmpty = true
            while !table.isAtEnd {
                let low: UInt64 = table.number()
                let size: UInt64 = table.number()
                if table.failed || low == 0 && size == 0 { break }
                isEmpty = false
                guard DwarfUnit.isLive(low), low <= last, size > first &- low || low >= first else { continue }
                for address in addresses where address >= low && address - low < size { known[address] = unit }
            }
            if !isListRead, !isEmpty { listed.insert(unit) }
        }
        isListRead = true
    }

    private func readOthers() -> [Entry] {
        var entries: [Entry] = []
        let isUnlisted = { (header: DwarfUnitHeader) in !self.listed.contains(header.offset) }
        guard file.headers.contains(where: isUnlisted) else { return [] }
        // Of these close to all is read.
        for section in [file.rangeLists, file.ranges, file.addresses] { ELFFile.willRead(section) }
        for header in file.headers where isUnlisted(header) {
            guard let unit = file.unit(at: header.offset) else { continue }
            let number = UInt32(otherUnits.count)
            otherUnits.append(header.offset)
            for range in unit.ranges {
                // One that is larger than code can be is cut off.
                let size = UInt32(clamping: range.upperBound - range.lowerBound)
                entries.append(Entry(start: range.lowerBound, size: size, unit: number))
            }
        }
        return entries
    }
}
