// Which part of a block a picture shows, and what is in each word of it. Pure layout: BlockPicture draws it.

/// The words of a block, and around it, that a picture of a finding shows. All places are bytes from the block's start.
struct BlockMap: Hashable {
    static let wordBytes: Int64 = 8
    /// A block of up to so many words is shown whole.
    static let windowWords: Int64 = 12

    let size: Int64
    /// What was touched; one byte where the length is not known. Nil where the place is not known to be in or at the block.
    let touched: Range<Int64>?
    let isLengthKnown: Bool
    /// What is shown, in whole words.
    let window: Range<Int64>
    /// Whether the block, or what was touched, goes on outside of the window.
    let isPartial: Bool

    // Reports may say anything; sums of lengths must not overflow.
    private static func length(of block: Finding.Block) -> Int64 { Int64(min(block.size, 1 << 60)) }

    // Places further off are no part of a picture of the block.
    private static let farthest: Int64 = 1 << 20

    /// Nil where the finding has no block.
    init?(_ finding: Finding) {
        guard let block = finding.block else { return nil }
        size = Self.length(of: block)
        let place = Self.place(finding, block)
        touched = place?.range
        isLengthKnown = place?.isExact ?? false

        let word = Self.wordBytes
        func down(_ value: Int64) -> Int64 { value - ((value % word) + word) % word }
        let end = down(size &+ word - 1)
        var low: Int64 = 0
        var high = max(end, word)
        if let touched {
            low = min(low, down(touched.lowerBound))
            high = max(high, down(touched.upperBound &+ word - 1))
        }
        if (high - low) / word <= Self.windowWords {
            // One word of what surrounds the block on each side says that there is something.
            if (high - low) / word + 2 <= Self.windowWords {
                low -= low == 0 ? word : 0
                high += high == max(end, word) ? word : 0
            }
            window = low..<high
            isPartial = false
        } else {
            let focus = down(touched?.lowerBound ?? 0)
            let before = Self.windowWords / 3 * word
            let first = min(max(low - word, focus - before), max(low, high + word - Self.windowWords * word))
            window = first..<first + Self.windowWords * word
            isPartial = true
        }
    }

    private static func place(_ finding: Finding, _ block: Finding.Block) -> (range: Range<Int64>, isExact: Bool)? {
        func number(_ name: String) -> Int64? { finding.detail[name].flatMap { Int64(signedDigits: $0) } }
        var offset = block.offset
        switch finding.detail["part"] {
        case "class pointer"?: offset = 0
        case "reference count"?: offset = wordBytes
        case _?: offset = number("offset") ?? offset
        case nil where finding.kind == .writeAfterFree: offset = number("offset") ?? offset
        case nil: break
        }
        guard let offset else { return nil }
        // A fault on a value from freed memory says nothing about a place in the block.
        let size = length(of: block)
        if finding.confidence == .inferred, finding.detail["part"] == nil {
            let distance = finding.address?.distance(from: block.start)
            guard (0..<max(size, 1)).contains(offset), distance.map({ $0 < block.size }) ?? true else { return nil }
        }
        guard offset > -farthest, offset < size + farthest else { return nil }
        var length: Int64?
        if finding.detail["call"] != nil {
            length = number("excess") ?? number("bytes")
        } else if [.writeAfterFree, .heapOverflow].contains(finding.kind) {
            length = number("length")
        }
        // What was read of a dead object is a word that the guard had put there.
        if finding.detail["part"] != nil, offset % wordBytes == 0 { length = wordBytes }
        let bytes = min(max(1, length ?? 1), size + farthest)
        return (offset..<offset + bytes, length != nil)
    }

    /// What a byte of the window belongs to.
    enum Region: String { case before, header, body, beyond }

    /// The window cut where one region ends and the next begins.
    func regions(headerBytes: Int64) -> [(range: Range<Int64>, region: Region)] {
        let borders: [(Int64, Region)] = [
            (0, .before), (min(headerBytes, size), .header), (size, .body), (.max, .beyond),
        ]
        var regions: [(Range<Int64>, Region)] = []
        var start = window.lowerBound
        for (border, region) in borders where border > start {
            let end = min(border, window.upperBound)
            if end > start { regions.append((start..<end, region)) }
            start = max(start, end)
        }
        return regions
    }
}

extension Finding.Block {
    /// What the first words of an object hold, as short labels; none where that is not known.
    var headerWords: [String] {
        guard className != nil else { return [] }
        return switch knownLanguage {
        case .swift: size >= 16 ? ["class", "refs"] : []
        case .cxx: size >= 8 ? ["vtable"] : []
        case .unknown, nil: []
        }
    }
}
