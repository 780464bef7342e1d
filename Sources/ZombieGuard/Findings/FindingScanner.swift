// Parses findings in the form that the runtime and zguard write, many times faster than `JSONDecoder`. The decoder,
// which accepts all of JSON and explains errors, parses every other line.

/// A single-pass scanner over one line.
struct FindingScanner {
    /// Thrown for input that the decoder must handle: an unknown key, a fractional number, another kind of line.
    private struct NeedsDecoder: Error {}

    private let bytes: UnsafeBufferPointer<UInt8>
    private var position = 0

    private init(_ bytes: UnsafeBufferPointer<UInt8>) { self.bytes = bytes }

    /// Parses a line into the finding that the decoder would return; nil if the decoder must parse the line.
    static func finding(_ line: inout String) -> Finding? {
        line.withUTF8 { bytes in
            var scanner = FindingScanner(bytes)
            guard let finding = try? scanner.finding() else { return nil }
            scanner.skipBlanks()
            return scanner.position == bytes.count ? finding : nil
        }
    }

    // MARK: Findings

    private mutating func finding() throws(NeedsDecoder) -> Finding {
        var finding = Finding(kind: Finding.Kind(rawValue: ""))
        var hasSchema = false
        var hasKind = false
        try object { (scanner, key) throws(NeedsDecoder) in
            switch key {
            case "schema":
                if try scanner.text() != Finding.schema { throw NeedsDecoder() }
                hasSchema = true
            case "kind":
                finding.kind = Finding.Kind(rawValue: try scanner.text())
                hasKind = true
            case "access": finding.access = try scanner.optionalText().map { .init(rawValue: $0) } ?? .unknown
            case "confidence": finding.confidence = try scanner.optionalText().map { .init(rawValue: $0) } ?? .exact
            case "address": finding.address = try scanner.isNull() ? nil : scanner.address()
            case "block": finding.block = try scanner.isNull() ? nil : scanner.block()
            case "thread": finding.thread = try scanner.isNull() ? nil : scanner.thread()
            case "stacks": if !scanner.isNull() { finding.stacks = try scanner.stacks() }
            case "history": try scanner.list { (_) throws(NeedsDecoder) in throw NeedsDecoder() }
            case "count": finding.count = max(1, try scanner.integer())
            case "pid": finding.processID = try scanner.integer()
            case "program": finding.program = try scanner.optionalText()
            case "time": finding.time = Finding.validTime(try scanner.optionalText())
            case "first_seen": finding.firstSeen = Finding.validTime(try scanner.optionalText())
            case "last_seen": finding.lastSeen = Finding.validTime(try scanner.optionalText())
            case "signature": finding.signature = try scanner.nonEmptyText()
            case "detail":
                try scanner.object { (scanner, key) throws(NeedsDecoder) in finding.detail[key] = try scanner.text() }
            case "author": finding.author = Author(text: try scanner.optionalText())
            case "origin": finding.origin = try scanner.isNull() ? nil : scanner.origin()
            default: throw NeedsDecoder()
            }
        }
        if !hasSchema || !hasKind { throw NeedsDecoder() }
        return finding
    }

    private mutating func block() throws(NeedsDecoder) -> Finding.Block {
        var block = Finding.Block(start: Address(0), size: 0)
        var (hasStart, hasSize) = (false, false)
        try object { (scanner, key) throws(NeedsDecoder) in
            switch key {
            case "start":
                block.start = try scanner.address()
                hasStart = true
            case "size":
                guard let size = UInt64(exactly: try scanner.integer()) else { throw NeedsDecoder() }
                block.size = size
                hasSize = true
            case "offset": block.offset = try scanner.isNull() ? nil : Int64(scanner.integer())
            case "state": block.state = try scanner.optionalText()
            case "language": block.language = try scanner.optionalText()
            case "class": block.className = try scanner.optionalText()
            case "member": block.member = try scanner.optionalText()
            case "alloc_thread": block.allocatingThread = try scanner.isNull() ? nil : scanner.integer()
            case "free_thread": block.freeingThread = try scanner.isNull() ? nil : scanner.integer()
            case "class_symbol": block.classSymbol = try scanner.optionalText()
            case "member_frame": block.memberFrame = try scanner.isNull() ? nil : scanner.frame()
            case "next":
                var next: [Finding.NextUse] = []
                try scanner.list { (scanner) throws(NeedsDecoder) in next.append(try scanner.nextUse()) }
                block.next = next
            case "bases":
                var bases: [String] = []
                try scanner.list { (scanner) throws(NeedsDecoder) in bases.append(try scanner.text()) }
                block.bases = bases
            default: throw NeedsDecoder()
            }
        }
        if !hasStart || !hasSize { throw NeedsDecoder() }
        return block
    }

    private mutating func nextUse() throws(NeedsDecoder) -> Finding.NextUse {
        var access: String?
        var use = Finding.NextUse(access: .unknown)
        try object { (scanner, key) throws(NeedsDecoder) in
            switch key {
            case "access": access = try scanner.text()
            case "member": use.member = try scanner.optionalText()
            case "member_frame": use.memberFrame = try scanner.isNull() ? nil : scanner.frame()
            case "member_symbol": use.memberSymbol = try scanner.optionalText()
            case "confidence": use.confidence = try scanner.optionalText().map { .init(rawValue: $0) }
            default: throw NeedsDecoder()
            }
        }
        guard let access else { throw NeedsDecoder() }
        use.access = Finding.Access(rawValue: access)
        return use
    }

    private mutating func thread() throws(NeedsDecoder) -> Finding.Thread {
        var id: Int?
        var name: String?
        try object { (scanner, key) throws(NeedsDecoder) in
            switch key {
            case "id": id = try scanner.integer()
            case "name": name = try scanner.optionalText()
            default: throw NeedsDecoder()
            }
        }
        guard let id else { throw NeedsDecoder() }
        return Finding.Thread(id: id, name: name)
    }

    private mutating func stacks() throws(NeedsDecoder) -> Finding.Stacks {
        var stacks = Finding.Stacks()
        try object { (scanner, key) throws(NeedsDecoder) in
            var frames: [Finding.Frame] = []
            try scanner.list { (scanner) throws(NeedsDecoder) in frames.append(try scanner.frame()) }
            switch key {
            case "access": stacks.access = frames
            case "free": stacks.free = frames
            case "alloc": stacks.alloc = frames
            case "previous": stacks.previous = frames
            case "thrown": stacks.thrown = frames
            default: throw NeedsDecoder()
            }
        }
        return stacks
    }

    private mutating func frame() throws(NeedsDecoder) -> Finding.Frame {
        var frame = Finding.Frame(pc: Address(0))
        var hasAddress = false
        try object { (scanner, key) throws(NeedsDecoder) in
            switch key {
            case "pc":
                frame.pc = try scanner.address()
                hasAddress = true
            case "module": frame.module = try scanner.nonEmptyText()
            case "build_id": frame.buildID = try scanner.nonEmptyText()
            case "offset": frame.offset = try scanner.isNull() ? nil : scanner.address()
            case "function": frame.function = try scanner.nonEmptyText()
            case "file": frame.file = try scanner.nonEmptyText()
            case "line": frame.line = try scanner.isNull() ? nil : scanner.integer()
            case "column": frame.column = try scanner.isNull() ? nil : scanner.integer()
            case "inlined":
                frame.inlined = scanner.skip("true")
                if !frame.inlined, !scanner.skip("false") { throw NeedsDecoder() }
            default: throw NeedsDecoder()
            }
        }
        if !hasAddress { throw NeedsDecoder() }
        return frame
    }

    private mutating func origin() throws(NeedsDecoder) -> Finding.Origin {
        var origin = Finding.Origin()
        try object { (scanner, key) throws(NeedsDecoder) in
            switch key {
            case "id": origin.id = try scanner.optionalText()
            case "host": origin.host = try scanner.optionalText()
            case "version": origin.version = try scanner.optionalText()
            case "tenant": origin.tenant = try scanner.optionalText()
            default: throw NeedsDecoder()
            }
        }
        return origin
    }

    // MARK: JSON

    private static let fewKeys = 32

    /// Parses an object and calls `value` at each value. A repeated key throws `NeedsDecoder`.
    private mutating func object(
        _ value: (inout FindingScanner, String) throws(NeedsDecoder) -> Void
    ) throws(NeedsDecoder) {
        try expect("{")
        if take("}") { return }
        var keys: [String] = []
        var more: Set<String> = []
        while true {
            skipBlanks()
            let key = try text()
            if keys.contains(key) { throw NeedsDecoder() }
            // Comparing is faster than hashing for few keys; only `detail` may have many.
            if keys.count < Self.fewKeys {
                keys.append(key)
            } else if !more.insert(key).inserted {
                throw NeedsDecoder()
            }
            try expect(":")
            skipBlanks()
            try value(&self, key)
            if take("}") { return }
            try expect(",")
        }
    }

    private mutating func list(_ value: (inout FindingScanner) throws(NeedsDecoder) -> Void) throws(NeedsDecoder) {
        try expect("[")
        if take("]") { return }
        while true {
            skipBlanks()
            try value(&self)
            if take("]") { return }
            try expect(",")
        }
    }

    private mutating func optionalText() throws(NeedsDecoder) -> String? { try isNull() ? nil : text() }

    /// Returns nil for an empty string.
    private mutating func nonEmptyText() throws(NeedsDecoder) -> String? {
        let text = try optionalText()
        return text == "" ? nil : text
    }

    private mutating func text() throws(NeedsDecoder) -> String {
        guard byte == UInt8(ascii: "\"") else { throw NeedsDecoder() }
        position += 1
        let start = position
        while let next = byte, next != UInt8(ascii: "\""), next != UInt8(ascii: "\\"), next >= 0x20 { position += 1 }
        if byte == UInt8(ascii: "\"") {
            position += 1
            return String(decoding: UnsafeBufferPointer(rebasing: bytes[start..<(position - 1)]), as: UTF8.self)
        }
        return try textWithEscapes(from: start)
    }

    private mutating func textWithEscapes(from start: Int) throws(NeedsDecoder) -> String {
        var result = Array(bytes[start..<position])
        while let next = byte, next >= 0x20 {
            position += 1
            if next == UInt8(ascii: "\"") { return String(decoding: result, as: UTF8.self) }
            if next != UInt8(ascii: "\\") {
                result.append(next)
                continue
            }
            guard let escaped = byte else { break }
            position += 1
            switch escaped {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): result.append(escaped)
            case UInt8(ascii: "n"): result.append(0x0a)
            case UInt8(ascii: "t"): result.append(0x09)
            case UInt8(ascii: "u"):
                var value: UInt32 = 0
                for _ in 0..<4 { value = value << 4 | UInt32(try digit()) }
                // A lone surrogate is not a scalar.
                guard let scalar = Unicode.Scalar(value) else { throw NeedsDecoder() }
                result += String(scalar).utf8
            default: throw NeedsDecoder()
            }
        }
        throw NeedsDecoder()
    }

    private mutating func address() throws(NeedsDecoder) -> Address {
        guard skip("\"0x") else { throw NeedsDecoder() }
        let start = position
        var value: UInt64 = 0
        while byte != UInt8(ascii: "\"") { value = value << 4 | UInt64(try digit()) }
        guard (1...16).contains(position - start) else { throw NeedsDecoder() }
        position += 1
        return Address(value)
    }

    private mutating func digit() throws(NeedsDecoder) -> UInt8 {
        guard let digit = byte else { throw NeedsDecoder() }
        position += 1
        switch digit {
        case 0x30...0x39: return digit - 0x30
        case 0x61...0x66: return digit - 0x57
        case 0x41...0x46: return digit - 0x37
        default: throw NeedsDecoder()
        }
    }

    /// Parses an integer of at most 18 digits, which always fits in 64 bits.
    private mutating func integer() throws(NeedsDecoder) -> Int {
        let isNegative = skip("-")
        let start = position
        var value = 0
        while let next = byte, (0x30...0x39).contains(next) {
            position += 1
            if position - start > 18 { throw NeedsDecoder() }
            value = value * 10 + Int(next - 0x30)
        }
        let count = position - start
        if count == 0 || count > 1 && bytes[start] == 0x30 { throw NeedsDecoder() }
        if let next = byte, [UInt8(ascii: "."), UInt8(ascii: "e"), UInt8(ascii: "E")].contains(next) {
            throw NeedsDecoder()
        }
        return isNegative ? -value : value
    }

    private mutating func isNull() -> Bool { skip("null") }

    private var byte: UInt8? { position < bytes.count ? bytes[position] : nil }

    private mutating func skipBlanks() {
        while let next = byte, next == 0x20 || next == 0x09 || next == 0x0d || next == 0x0a { position += 1 }
    }

    /// Skips whitespace and consumes the character if it is next.
    private mutating func take(_ sign: Unicode.Scalar) -> Bool {
        skipBlanks()
        guard byte == UInt8(ascii: sign) else { return false }
        position += 1
        return true
    }

    private mutating func expect(_ sign: Unicode.Scalar) throws(NeedsDecoder) {
        if !take(sign) { throw NeedsDecoder() }
    }

    private mutating func skip(_ word: StaticString) -> Bool {
        let count = word.utf8CodeUnitCount
        guard position + count <= bytes.count else { return false }
        for index in 0..<count where bytes[position + index] != word.utf8Start[index] { return false }
        position += count
        return true
    }
}
