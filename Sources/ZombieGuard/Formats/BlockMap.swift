// Computes which words in and around a block the HTML picture shows, and which bytes belong to the object's header.
// BlockPicture draws the result.

/// The words in and around a block that a picture shows. All positions are byte offsets from the block's start.
struct BlockMap: Hashable {
    static let wordBytes: Int64 = 8
    /// Maximum number of words in a picture: for wide browser windows, and for narrow ones. A block that fits is shown
    /// as a whole.
    static let windowWords: Int64 = 12, narrowWords: Int64 = 6

    let size: Int64
    /// The accessed bytes; one byte if the length is unknown. Nil if the access has no known offset in or near the
    /// block.
    let touched: Range<Int64>?
    let isLengthKnown: Bool
    /// The bytes shown, in whole words.
    let window: Range<Int64>
    /// Whether the block or the access extends beyond the window.
    let isPartial: Bool

    // Sizes in a report are untrusted; the clamp keeps sums from overflowing.
    private static func length(of block: Finding.Block) -> Int64 { Int64(min(block.size, 1 << 60)) }

    // An access farther from the block than this, in bytes, is not drawn.
    private static let farthest: Int64 = 1 << 20

    /// Nil if the finding has no block.
    init?(_ finding: Finding, words most: Int64 = windowWords) {
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
        if (high - low) / word <= most {
            // If there is room, show one word of the surroundings on each side.
            if (high - low) / word + 2 <= most {
                low -= low == 0 ? word : 0
                high += high == max(end, word) ? word : 0
            }
            window = low..<high
            isPartial = false
        } else {
            let focus = down(touched?.lowerBound ?? 0)
            let before = most / 3 * word
            let first = min(max(low - word, focus - before), max(low, high + word - most * word))
            window = first..<first + most * word
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
        // An inferred access outside of the block is not drawn: a value that was read from freed memory may have caused
        // the fault, and then the finding reveals no offset in the block.
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
        // With a `part`, the program has read a trap word of a freed object. A trap word has the size of a pointer.
        if finding.detail["part"] != nil, offset % wordBytes == 0 { length = wordBytes }
        let bytes = min(max(1, length ?? 1), size + farthest)
        return (offset..<offset + bytes, length != nil)
    }

    /// The region that a byte of the window belongs to.
    enum Region: String { case before, header, body, beyond }

    /// The window, split at region boundaries.
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
    /// Short labels of an object's header words; empty if the layout is unknown.
    var headerWords: [String] {
        guard className != nil else { return [] }
        return switch knownLanguage {
        case .swift: size >= 16 ? ["class", "refs"] : []
        case .cxx: size >= 8 ? ["vtable"] : []
        case .unknown, nil: []
        }
    }
}
