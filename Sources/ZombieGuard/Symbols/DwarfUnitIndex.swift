// Finds the unit of an address without reading all of .debug_info.

import CDwarf

/// Finds the units of addresses. gcc lists the addresses of its units in .debug_aranges, which is read first. clang and
/// Swift do not write .debug_aranges, so if an address is not found there, the root entry of every unlisted unit is
/// read.
final class DwarfUnitIndex {
    /// An address range of a unit. Compact, because a large program has a million ranges.
    private struct Entry {
        var start: UInt64
        var size: UInt32
        /// Index in `otherUnits`.
        var unit: UInt32
    }

    private let file: DwarfFile
    // Unit offset of every address that was looked up; nil if no unit has it.
    private var known: [UInt64: UInt64?] = [:]
    private var listed: Set<UInt64> = []
    private var isListRead = false
    private lazy var others = readOthers()
    private var otherUnits: [UInt64] = []

    init(_ file: DwarfFile) { self.file = file }

    /// The unit that contains an address; nil if there is none.
    func unit(of address: UInt64) -> DwarfUnit? {
        if known[address] == nil { find([address]) }
        return (known[address] ?? nil).flatMap { file.unit(at: $0) }
    }

    /// Looks up addresses in one pass over .debug_aranges.
    func find(_ addresses: some Sequence<UInt64>) {
        let new = Set(addresses).filter { known[$0] == nil }.sorted()
        if new.isEmpty { return }
        for address in new { known[address] = .some(nil) }
        readAddressRanges(new)
        for case let unit? in new.map({ known[$0] ?? nil }) { ELFFile.prefetch(file.info, at: unit) }
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

    /// Reads .debug_aranges: for each unit a header, then pairs of address and length, terminated by a pair of zeros.
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
            // The first pair is aligned to the size of a pair, relative to the header.
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
        // Nearly all of these sections will be read.
        for section in [file.rangeLists, file.ranges, file.addresses] { ELFFile.prefetch(section) }
        for header in file.headers where isUnlisted(header) {
            guard let unit = file.unit(at: header.offset) else { continue }
            let number = UInt32(otherUnits.count)
            otherUnits.append(header.offset)
            for range in unit.ranges {
                // Clamp ranges of 4 GiB and more: no code is that large.
                let size = UInt32(clamping: range.upperBound - range.lowerBound)
                entries.append(Entry(start: range.lowerBound, size: size, unit: number))
            }
        }
        return entries
    }
}
