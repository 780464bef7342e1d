// Parses findings in the form that the runtime and zguard write, many times faster than `JSONDecoder`. The decoder,
// which accepts all of JSON and explains errors, parses every other line.

/// A single-pass scanner over one line.
struct FindingScanner {
    /// Thrown for input that the decoder must handle: an unknown key, a fractional number, another kind of line.
    private struct Unusual: Error {}

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

    private mutating func finding() throws(Unusual) -> Finding {
        var finding = Finding(kind: Finding.Kind(rawValue: ""))
        var hasSchema = false
        var hasKind = false
        try object { (scanner, key) throws(Unusual) in
            switch key {
            case "schema":
                if try scanner.text() != Finding.schema { throw Unusual() }
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
            case "history": try scanner.list { (_) throws(Unusual) in throw Unusual() }
            case "count": finding.count = max(1, try scanner.integer())
            case "pid": finding.processID = try scanner.integer()
            case "program": finding.program = try scanner.optionalText()
            case "time": finding.time = Finding.toldTime(try scanner.optionalText())
            case "first_seen": finding.firstSeen = Finding.toldTime(try scanner.optionalText())
            case "last_seen": finding.lastSeen = Finding.toldTime(try scanner.optionalText())
            case "signature": finding.signature = try scanner.filledText()
            case "detail":
                try scanner.object { (scanner, key) throws(Unusual) in finding.detail[key] = try scanner.text() }
            case "author": finding.author = Author(text: try scanner.optionalText())
            case "origin": finding.origin = try scanner.isNull() ? nil : scanner.origin()
            default: throw Unusual()
            }
        }
        if !hasSchema || !hasKind { throw Unusual() }
        return finding
    }

    private mutating func block() throws(Unusual) -> Finding.Block {
        var block = Finding.Block(start: Address(0), size: 0)
        var (hasStart, hasSize) = (false, false)
        try object { (scanner, key) throws(Unusual) in
            switch key {
            case "start":
                block.start = try scanner.address()
                hasStart = true
            case "size":
                guard let size = UInt64(exactly: try scanner.integer()) else { throw Unusual() }
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
                try scanner.list { (scanner) throws(Unusual) in next.append(try scanner.nextUse()) }
                block.next = next
            case "bases":
                var bases: [String] = []
                try scanner.list { (scanner) throws(Unusual) in bases.append(try scanner.text()) }
                block.bases = bases
            default: throw Unusual()
            }
        }
        if !hasStart || !hasSize { throw Unusual() }
        return block
    }

    private mutating func nextUse() throws(Unusual) -> Finding.NextUse {
        var access: String?
        var use = Finding.NextUse(access: .unknown)
        try object { (scanner, key) throws(Unusual) in
            switch key {
            case "access": access = try scanner.text()
            case "member": use.member = try scanner.optionalText()
            case "member_frame": use.memberFrame = try scanner.isNull() ? nil : scanner.frame()
            case "member_symbol": use.memberSymbol = try scanner.optionalText()
            case "confidence": use.confidence = try scanner.optionalText().map { .init(rawValue: $0) }
            default: throw Unusual()
            }
        }
        guard let access else { throw Unusual() }
        use.access = Finding.Access(rawValue: access)
        return use
    }

    private mutating func thread() throws(Unusual) -> Finding.Thread {
        var id: Int?
        var name: String?
        try object { (scanner, key) throws(Unusual) in
            switch key {
            case "id": id = try scanner.integer()
            case "name": name = try scanner.optionalText()
            default: throw Unusual()
            }
        }
        guard let id else { throw Unusual() }
        return Finding.Thread(id: id, name: name)
    }

    private mutating func stacks() throws(Unusual) -> Finding.Stacks {
        var stacks = Finding.Stacks()
        try object { (scanner, key) throws(Unusual) in
            var frames: [Finding.Frame] = []
            try scanner.list { (scanner) throws(Unusual) in frames.append(try scanner.frame()) }
            switch key {
            case "access": stacks.access = frames
            case "free": stacks.free = frames
            case "alloc": stacks.alloc = frames
            case "previous": stacks.previous = frames
            case "thrown": stacks.thrown = frames
            default: throw Unusual()
            }
        }
        return stacks
    }

    private mutating func frame() throws(Unusual) -> Finding.Frame {
        var frame = Finding.Frame(pc: Address(0))
        var hasAddress = false
        try object { (scanner, key) throws(Unusual) in
            switch key {
            case "pc":
                frame.pc = try scanner.address()
                hasAddress = true
            case "module": frame.module = try scanner.filledText()
            case "build_id": frame.buildID = try scanner.filledText()
            case "offset": frame.offset = try scanner.isNull() ? nil : scanner.address()
            case "function": frame.function = try scanner.filledText()
            case "file": frame.file = try scanner.filledText()
            case "line": frame.line = try scanner.isNull() ? nil : scanner.integer()
            case "column": frame.column = try scanner.isNull() ? nil : scanner.integer()
            case "inlined":
                frame.inlined = scanner.skip("true")
                if !frame.inlined, !scanner.skip("false") { throw Unusual() }
            default: throw Unusual()
            }
        }
        if !hasAddress { throw Unusual() }
        return frame
    }

    private mutating func origin() throws(Unusual) -> Finding.Origin {
        var origin = Finding.Origin()
        try object { (scanner, key) throws(Unusual) in
            switch key {
            case "id": origin.id = try scanner.optionalText()
            case "host": origin.host = try scanner.optionalText()
            case "version": origin.version = try scanner.optionalText()
            case "tenant": origin.tenant = try scanner.optionalText()
            default: throw Unusual()
            }
        }
        return origin
    }

    // MARK: JSON

    private static let fewKeys = 32

    /// Parses an object and calls `value` at each value. A repeated key throws `Unusual`.
    private mutating func object(
        _ value: (inout FindingScanner, String) throws(Unusual) -> Void
    ) throws(Unusual) {
        try expect("{")
        if take("}") { return }
        var keys: [String] = []
        var more: Set<String> = []
        while true {
            skipBlanks()
            let key = try text()
            if keys.contains(key) { throw Unusual() }
            // Comparing is faster than hashing for few keys; only `detail` may have many.
            if keys.count < Self.fewKeys {
                keys.append(key)
            } else if !more.insert(key).inserted {
                throw Unusual()
            }
            try expect(":")
            skipBlanks()
            try value(&self, key)
            if take("}") { return }
            try expect(",")
        }
    }

    private mutating func list(_ value: (inout FindingScanner) throws(Unusual) -> Void) throws(Unusual) {
        try expect("[")
        if take("]") { return }
        while true {
            skipBlanks()
            try value(&self)
            if take("]") { return }
            try expect(",")
        }
    }

    private mutating func optionalText() throws(Unusual) -> String? { try isNull() ? nil : text() }

    /// Returns nil for an empty string.
    private mutating func filledText() throws(Unusual) -> String? {
        let text = try optionalText()
        return text == "" ? nil : text
    }

    private mutating func text() throws(Unusual) -> String {
        guard byte == UInt8(ascii: "\"") else { throw Unusual() }
        position += 1
        let start = position
        while let next = byte, next != UInt8(ascii: "\""), next != UInt8(ascii: "\\"), next >= 0x20 { position += 1 }
        if byte == UInt8(ascii: "\"") {
            position += 1
            return String(decoding: UnsafeBufferPointer(rebasing: bytes[start..<(position - 1)]), as: UTF8.self)
        }
        return try textWithEscapes(from: start)
    }

    private mutating func textWithEscapes(from start: Int) throws(Unusual) -> String {
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
                guard let scalar = Unicode.Scalar(value) else { throw Unusual() }
                result += String(scalar).utf8
            default: throw Unusual()
            }
        }
        throw Unusual()
    }

    private mutating func address() throws(Unusual) -> Address {
        guard skip("\"0x") else { throw Unusual() }
        let start = position
        var value: UInt64 = 0
        while byte != UInt8(ascii: "\"") { value = value << 4 | UInt64(try digit()) }
        guard (1...16).contains(position - start) else { throw Unusual() }
        position += 1
        return Address(value)
    }

    private mutating func digit() throws(Unusual) -> UInt8 {
        guard let digit = byte else { throw Unusual() }
        position += 1
        switch digit {
        case 0x30...0x39: return digit - 0x30
        case 0x61...0x66: return digit - 0x57
        case 0x41...0x46: return digit - 0x37
        default: throw Unusual()
        }
    }

    /// Parses an integer of at most 18 digits, which always fits in 64 bits.
    private mutating func integer() throws(Unusual) -> Int {
        let isNegative = skip("-")
        let start = position
        var value = 0
        while let next = byte, (0x30...0x39).contains(next) {
            position += 1
            if position - start > 18 { throw Unusual() }
            value = value * 10 + Int(next - 0x30)
        }
        let count = position - start
        if count == 0 || count > 1 && bytes[start] == 0x30 { throw Unusual() }
        if let next = byte, [UInt8(ascii: "."), UInt8(ascii: "e"), UInt8(ascii: "E")].contains(next) {
            throw Unusual()
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

    private mutating func expect(_ sign: Unicode.Scalar) throws(Unusual) {
        if !take(sign) { throw Unusual() }
    }

    private mutating func skip(_ word: StaticString) -> Bool {
        let count = word.utf8CodeUnitCount
        guard position + count <= bytes.count else { return false }
        for index in 0..<count where bytes[position + index] != word.utf8Start[index] { return false }
        position += count
        return true
    }
}
