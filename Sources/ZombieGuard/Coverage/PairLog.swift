// Reads pair logs of processes (stacks/pair_log.c), and reads and writes the coverage file, which sums up runs. Both
// have the same lines; the coverage file also has counts behind each pair, and a line for each run.

/// One line in a pair log or a coverage file.
enum PairLine {
    static let first = "zguard.coverage/1"
}

/// The words of a line. Works on bytes: files have megabytes, and splitting strings takes ten times as long.
private struct PairWords {
    private let bytes: UnsafeRawBufferPointer
    private var position: Int

    init(_ line: UnsafeRawBufferPointer) {
        bytes = line
        position = 1
    }

    var isAtEnd: Bool { position == bytes.count }

    /// The next number after a blank or a plus sign, in this base; nil if there is none.
    mutating func number(base: UInt64) -> UInt64? {
        guard skip(UInt8(ascii: " ")) || skip(UInt8(ascii: "+")) else { return nil }
        let start = position
        var value: UInt64 = 0
        while position < bytes.count, let digit = digit(bytes[position]), digit < base, value >> 60 == 0 {
            value = value * base + digit
            position += 1
        }
        return position > start && (isAtEnd || " +".utf8.contains(bytes[position])) ? value : nil
    }

    mutating func count() -> Int? { number(base: 10).map { Int(min($0, 1 << 30)) } }

    private func digit(_ byte: UInt8) -> UInt64? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt64(byte - UInt8(ascii: "0"))
        case UInt8(ascii: "a")...UInt8(ascii: "f"): UInt64(byte - UInt8(ascii: "a") + 10)
        default: nil
        }
    }

    mutating func skip(_ byte: UInt8) -> Bool {
        guard position < bytes.count, bytes[position] == byte else { return false }
        position += 1
        return true
    }

    /// Skips the rest of a word.
    mutating func skipWord() {
        while position < bytes.count, bytes[position] != UInt8(ascii: " ") { position += 1 }
    }

    /// The next word; nil if there is none.
    mutating func text() -> String? {
        guard skip(UInt8(ascii: " ")) else { return nil }
        let start = position
        skipWord()
        return position > start ? String(decoding: bytes[start..<position], as: UTF8.self) : nil
    }

    /// The rest of the line, without the blank in front of it; nil if the rest is empty.
    mutating func rest() -> String? {
        guard skip(UInt8(ascii: " ")), !isAtEnd else { return nil }
        defer { position = bytes.count }
        return String(decoding: bytes[position...], as: UTF8.self)
    }
}

extension PairCoverage {
    /// Reads a pair log or a coverage file. Skips lines that cannot be read: a killed process may have written a part
    /// of a line, and processes of other users may have written anything.
    ///
    /// - Returns: nil if the first line is another format's.
    package init?(lines text: [UInt8]) {
        self.init()
        guard text.starts(with: (PairLine.first + "\n").utf8) else { return nil }
        text.withUnsafeBytes { bytes in
            var numbers: [UInt64: Int] = [:]
            var start = 0
            while start < bytes.count {
                let end = bytes[start...].firstIndex(of: UInt8(ascii: "\n")) ?? bytes.count
                if end > start { read(UnsafeRawBufferPointer(rebasing: bytes[start..<end]), &numbers) }
                start = end + 1
            }
        }
    }

    private mutating func read(_ line: UnsafeRawBufferPointer, _ numbers: inout [UInt64: Int]) {
        var words = PairWords(line)
        switch line[0] {
        case UInt8(ascii: "M"):
            guard let number = words.number(base: 16), let build = words.text(), let path = words.rest() else { return }
            numbers[number] = index(of: Module(path: path, buildID: build == "-" ? nil : build))
        case UInt8(ascii: "S"):
            guard let identity = words.number(base: 16) else { return }
            var frames: [Frame?] = []
            while !words.isAtEnd {
                let number = words.number(base: 16)
                let offset = words.number(base: 16)
                if number == nil || offset == nil { words.skipWord() }
                let module = number.flatMap { numbers[$0] }
                frames.append(module.flatMap { module in offset.map { Frame(module: module, offset: $0) } })
            }
            add(stack: identity, frames)
        case UInt8(ascii: "P"), UInt8(ascii: "W"):
            guard let alloc = words.number(base: 16), let free = words.number(base: 16) else { return }
            let isWatched = line[0] == UInt8(ascii: "W")
            var count = Count(seen: isWatched ? 0 : 1, watched: isWatched ? 1 : 0)
            if !words.isAtEnd {
                guard let seen = words.count(), let watched = words.count() else { return }
                count = Count(seen: seen, watched: watched)
            }
            if words.isAtEnd { add(Pair(alloc: alloc, free: free), count) }
        case UInt8(ascii: "R"):
            guard let pairs = words.count(), let watched = words.count() else { return }
            runs.append(Run(pairs: pairs, watched: watched))
        default: return
        }
    }

    /// The coverage file's text, in a deterministic order.
    package var lines: String {
        var text = PairLine.first + "\n"
        for run in runs { text += "R \(run.pairs) \(run.watched)\n" }
        for (number, module) in modules.enumerated() {
            text += "M \(hex(UInt64(number))) \(module.buildID ?? "-") \(module.path)\n"
        }
        for (identity, frames) in stacks.sorted(by: { $0.key < $1.key }) {
            let words = frames.map { $0.map { "\(hex(UInt64($0.module)))+\(hex($0.offset))" } ?? "-" }
            text += "S \(hex(identity)) \(words.joined(separator: " "))\n"
        }
        for (pair, count) in pairs.sorted(by: { ($0.key.alloc, $0.key.free) < ($1.key.alloc, $1.key.free) }) {
            text += "P \(hex(pair.alloc)) \(hex(pair.free)) \(count.seen) \(count.watched)\n"
        }
        return text
    }

    private func hex(_ number: UInt64) -> String { String(number, radix: 16) }
}
