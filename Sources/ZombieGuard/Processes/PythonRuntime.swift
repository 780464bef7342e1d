// Reads the calls of Python functions from the memory of a process with CPython 3.11 to 3.13.

/// The CPython runtime of a process. All data is read from the memory of another process: reads are bounded, and
/// offsets, thread states and code objects are checked before use.
package struct PythonRuntime {
    private let layout: Layout
    private let runtime: UInt64
    private let version: Int // 11 for 3.11

    /// A call of a Python function.
    package struct Call: Equatable {
        fileprivate var code: UInt64
        /// Offset of the instruction in the function's code, in bytes.
        fileprivate var instruction: Int
        /// Whether this call is the first one of an activation of the interpreter. If so, the next call belongs to an
        /// outer activation.
        fileprivate var isEntry: Bool
    }

    /// Offsets in the structures of CPython.
    private struct Layout {
        /// Offset of the list of interpreters in _PyRuntime, and of the list of threads in an interpreter; nil before
        /// 3.13, where both lists are found by a search.
        var interpreters: Int?, threads: Int?
        /// Offsets in PyThreadState. `frame` points to the current frame or, unless `inCFrame` is nil, to a structure
        /// with a pointer to the frame at `inCFrame`.
        var frame: Int, inCFrame: Int?, nativeID: Int
        /// Offsets in _PyInterpreterFrame.
        var code: Int, previous: Int, instruction: Int, owner: Int
        /// Offsets in PyCodeObject.
        var file = 112, name = 128, lines = 136, firstLine: Int, instructions: Int
        /// Size of the header of a compact string: `textHead` for ASCII, `wideTextHead` for other characters.
        var textHead = 40, wideTextHead = 56

        // CPython 3.11 and 3.12: Include/cpython/pystate.h, Include/internal/pycore_frame.h, Include/cpython/code.h.
        static let v11 = Layout(
            frame: 56, inCFrame: 8, nativeID: 160, code: 32, previous: 48, instruction: 56, owner: 69,
            firstLine: 72, instructions: 184, textHead: 48, wideTextHead: 72)
        static let v12 = Layout(
            frame: 56, inCFrame: 0, nativeID: 144, code: 0, previous: 8, instruction: 56, owner: 70,
            firstLine: 68, instructions: 192)

        /// From 3.13 on, _PyRuntime begins with its offsets: struct _Py_DebugOffsets, a cookie and words of 8 bytes.
        init?(offsets words: [UInt64]) {
            let most: UInt64 = 1 << 20
            guard words.count == Layout.words, words[2] == 0, words[3..<Layout.words].allSatisfy({ $0 < most }) else {
                return nil
            }
            func word(_ index: Int) -> Int { Int(words[index]) }
            self.init(
                interpreters: word(5), threads: word(9), frame: word(23), nativeID: word(25),
                code: word(30), previous: word(29), instruction: word(31), owner: word(33), file: word(35),
                name: word(37), lines: word(38), firstLine: word(39), instructions: word(43))
        }

        static let words = 44

        init(
            interpreters: Int? = nil, threads: Int? = nil, frame: Int, inCFrame: Int? = nil, nativeID: Int, code: Int,
            previous: Int, instruction: Int, owner: Int, file: Int = 112, name: Int = 128, lines: Int = 136,
            firstLine: Int, instructions: Int, textHead: Int = 40, wideTextHead: Int = 56
        ) {
            (self.interpreters, self.threads, self.frame, self.nativeID) = (interpreters, threads, frame, nativeID)
            (self.inCFrame, self.code, self.previous, self.instruction) = (inCFrame, code, previous, instruction)
            (self.owner, self.file, self.name, self.lines) = (owner, file, name, lines)
            (self.firstLine, self.instructions) = (firstLine, instructions)
            (self.textHead, self.wideTextHead) = (textHead, wideTextHead)
        }
    }

    /// FRAME_OWNED_BY_CSTACK: owner of the interpreter's own frame, which is directly outside of the first call of each
    /// activation. In 3.11, the byte before the owner is 1 for the first call.
    private static let interpreterOwns: UInt8 = 3
    private static let mostCalls = 200, mostInterpreters = 64, mostThreads = 4096, mostCodeBytes = 1 << 22
    private static let cookie = Array("xdebugpy".utf8)

    /// - Returns: nil if the process has no CPython of these versions.
    package init?(mappings: [Mapping], memory: some MemoryReader) {
        let images = mappings.filter { mapping in
            let file = mapping.path.split(separator: "/").last ?? ""
            return mapping.fileOffset == 0 && (file.hasPrefix("python3") || file.hasPrefix("libpython3"))
        }
        for image in images {
            guard
                let runtime = ProcessModules.address(ofSymbol: "_PyRuntime", at: image.start, in: memory),
                let place = ProcessModules.address(ofSymbol: "Py_Version", at: image.start, in: memory),
                let number = memory.record(UInt64.self, at: place), number >> 24 == 3
            else { continue }
            (self.runtime, version) = (runtime, Int(number >> 16 & 0xff))
            switch version {
            case 11: layout = .v11
            case 12: layout = .v12
            case 13:
                let words = memory.records(UInt64.self, at: runtime, count: Layout.words)
                guard memory.read(at: runtime, upTo: Self.cookie.count) == Self.cookie,
                    let layout = Layout(offsets: words)
                else { return nil }
                self.layout = layout
            default: return nil
            }
            return
        }
        return nil
    }

    // MARK: Calls

    /// The calls of a thread, innermost first; empty if there are none. Call while the thread is stopped.
    package func calls(of thread: Int32, in memory: some MemoryReader) -> [Call] {
        guard let state = state(of: thread, in: memory) else { return [] }
        func word(_ address: UInt64, _ offset: Int) -> UInt64? {
            memory.record(UInt64.self, at: address &+ UInt64(offset))
        }
        var place = word(state, layout.frame)
        if let inCFrame = layout.inCFrame { place = place.flatMap { word($0, inCFrame) } }
        var calls: [Call] = []
        for _ in 0..<Self.mostCalls {
            guard let frame = place, frame != 0, let code = word(frame, layout.code),
                let owner = memory.record(UInt8.self, at: frame &+ UInt64(layout.owner))
            else { break }
            place = word(frame, layout.previous)
            if version > 11, owner == Self.interpreterOwns {
                if !calls.isEmpty { calls[calls.count - 1].isEntry = true }
                continue
            }
            // The field holds the last executed instruction; in 3.13, the current one.
            guard let instruction = word(frame, layout.instruction), isCode(code, in: memory) else { break }
            let start = code &+ UInt64(layout.instructions)
            let offset = instruction < start ? 0 : instruction - start
            guard offset < UInt64(Self.mostCodeBytes) else { break }
            let isFirst = version == 11 && memory.record(UInt8.self, at: frame &+ UInt64(layout.owner - 1)) == 1
            calls.append(Call(code: code, instruction: Int(offset), isEntry: isFirst))
        }
        return calls
    }

    /// The thread's PyThreadState.
    private func state(of thread: Int32, in memory: some MemoryReader) -> UInt64? {
        for (interpreter, first) in interpreters(in: memory) {
            var next = first
            for _ in 0..<Self.mostThreads where next != 0 {
                // The structure begins with pointers to the previous thread, the next thread, and the interpreter.
                let head = memory.records(UInt64.self, at: next, count: 3)
                guard head.count == 3, head[2] == interpreter else { break }
                if memory.record(UInt64.self, at: next &+ UInt64(layout.nativeID)) == UInt64(UInt32(bitPattern: thread))
                {
                    return next
                }
                next = head[1]
            }
        }
        return nil
    }

    /// The interpreters, and the first thread of each.
    private func interpreters(in memory: some MemoryReader) -> [(interpreter: UInt64, thread: UInt64)] {
        if let interpreters = layout.interpreters, let threads = layout.threads {
            let first = memory.record(UInt64.self, at: runtime &+ UInt64(interpreters))
            let thread = first.flatMap { memory.record(UInt64.self, at: $0 &+ UInt64(threads)) }
            return first.flatMap { first in thread.map { [(first, $0)] } } ?? []
        }
        // Before 3.13, search for the heads of the lists, which are near the beginnings of their structures. The first
        // thread of an interpreter has no previous thread, and points to the interpreter.
        for place in memory.records(UInt64.self, at: runtime, count: 16) where place > 4096 && place % 8 == 0 {
            for thread in memory.records(UInt64.self, at: place, count: 32) where thread > 4096 && thread % 8 == 0 {
                let head = memory.records(UInt64.self, at: thread, count: 3)
                if head.count == 3, head[0] == 0, head[2] == place { return [(place, thread)] }
            }
        }
        return []
    }

    /// Whether the object's type is called "code".
    private func isCode(_ object: UInt64, in memory: some MemoryReader) -> Bool {
        guard let type = memory.record(UInt64.self, at: object &+ 8),
            let name = memory.record(UInt64.self, at: type &+ 24)
        else { return false }
        return memory.read(at: name, upTo: 5) == Array("code".utf8) + [0]
    }

    // MARK: Names

    /// The stack with calls of Python functions in place of the interpreter's function.
    ///
    /// - Parameters:
    ///   - stack: native frames, innermost first.
    ///   - function: returns the name of the function at a frame.
    package func stack(
        _ stack: [Finding.Frame], _ calls: [Call], in memory: some MemoryReader,
        function: (Finding.Frame) -> String?
    ) -> [Finding.Frame] {
        var groups: [[Call]] = [[]]
        for call in calls {
            groups[groups.count - 1].append(call)
            if call.isEntry { groups.append([]) }
        }
        if groups.last?.isEmpty ?? false { groups.removeLast() }
        let evaluations = stack.indices.filter { function(stack[$0])?.hasPrefix("_PyEval_EvalFrameDefault") ?? false }
        // `groups` and `evaluations` list activations of the interpreter. Their counts may differ by one: the innermost
        // activation may be about to begin its call, or to return from it. If a limit cuts one of the lists off at its
        // outermost end, match both lists from the innermost activation on.
        let isCut = calls.count >= Self.mostCalls || stack.count >= StackUnwinder.mostFrames
        var group = isCut ? 0 : groups.count - evaluations.count
        if !isCut, !(-1...1).contains(group) { return stack }
        var result: [Finding.Frame] = []
        for (index, frame) in stack.enumerated() {
            guard evaluations.contains(index) else {
                result.append(frame)
                continue
            }
            let named =
                groups.indices.contains(group) ? groups[group].compactMap { self.frame($0, frame.pc, memory) } : []
            result += named.isEmpty ? [frame] : named
            group += 1
        }
        return result
    }

    private func frame(_ call: Call, _ pc: Address, _ memory: some MemoryReader) -> Finding.Frame? {
        func object(_ offset: Int) -> UInt64? { memory.record(UInt64.self, at: call.code &+ UInt64(offset)) }
        guard let name = object(layout.name).flatMap({ text(at: $0, memory) }) else { return nil }
        var frame = Finding.Frame(pc: pc)
        frame.function = name
        frame.file = object(layout.file).flatMap { text(at: $0, memory) }
        let first = memory.record(Int32.self, at: call.code &+ UInt64(layout.firstLine))
        if let first, first > 0, let table = object(layout.lines) {
            frame.line = line(of: call.instruction, first: Int(first), table: bytes(at: table, memory))
        }
        return frame
    }

    /// Contents of a bytes object: its length is at offset 16, its bytes are at 32.
    private func bytes(at object: UInt64, _ memory: some MemoryReader) -> [UInt8] {
        let count = memory.record(UInt64.self, at: object &+ 16) ?? 0
        return memory.read(at: object &+ 32, upTo: Int(min(count, UInt64(Self.mostCodeBytes))))
    }

    private static let longestText = 400

    /// Contents of a string object: its length is at offset 16, its `state` at 32. Bits 2 to 4 of `state` are the
    /// number of bytes per character; bit 5 is set for a compact string, bit 6 for ASCII.
    private func text(at object: UInt64, _ memory: some MemoryReader) -> String? {
        guard let length = memory.record(UInt64.self, at: object &+ 16), length > 0, length < 1 << 20,
            let state = memory.record(UInt32.self, at: object &+ 32), state & 0x20 != 0
        else { return nil }
        let head = UInt64(state & 0x40 != 0 ? layout.textHead : layout.wideTextHead)
        let count = min(Int(length), Self.longestText)
        switch state >> 2 & 7 {
        case 1:
            let bytes = memory.read(at: object &+ head, upTo: count)
            return bytes.count == count ? String(String.UnicodeScalarView(bytes.map { Unicode.Scalar($0) })) : nil
        case 2: return String(decoding: memory.records(UInt16.self, at: object &+ head, count: count), as: UTF16.self)
        case 4: return String(decoding: memory.records(UInt32.self, at: object &+ head, count: count), as: UTF32.self)
        default: return nil
        }
    }

    /// The line of an instruction, from the table of a code object: Objects/locations.md of CPython.
    private func line(of instruction: Int, first: Int, table: [UInt8]) -> Int? {
        PythonLines(first: first, table: table).line(of: instruction)
    }
}

/// The table of lines of a Python function.
struct PythonLines {
    let first: Int
    let table: [UInt8]

    // Forms of a table entry: below 10, the line does not change; 10 to 12 add 0 to 2 to the line; 13 has no columns;
    // 14 is the long form; 15 has no line.
    private enum Form { static let sameLine: UInt8 = 10, noColumns: UInt8 = 13, long: UInt8 = 14, none: UInt8 = 15 }

    /// - Parameter instruction: offset in bytes; an instruction has two bytes.
    func line(of instruction: Int) -> Int? {
        var (line, start, index) = (first, 0, 0)
        while index < table.count {
            let head = table[index]
            index += 1
            let form = head >> 3 & 15
            switch form {
            case Form.none: break
            case Form.long, Form.noColumns: line &+= signed(number(&index))
            case Form.sameLine..<Form.noColumns: line &+= Int(form - Form.sameLine)
            default: break
            }
            start += (Int(head & 7) + 1) * 2
            if instruction < start { return form == Form.none || line <= 0 ? nil : line }
            // Skip the columns: only the first byte of an entry has bit 7 set.
            while index < table.count, table[index] & 0x80 == 0 { index += 1 }
        }
        return nil
    }

    // Six bits in each byte, the lowest first; bit 6 says that another byte follows.
    private func number(_ index: inout Int) -> Int {
        var number = 0
        var shift = 0
        while index < table.count, shift < 48 {
            let byte = table[index]
            number |= Int(byte & 63) << shift
            index += 1
            shift += 6
            if byte & 64 == 0 { break }
        }
        return number
    }

    private func signed(_ number: Int) -> Int { number & 1 != 0 ? -(number >> 1) : number >> 1 }
}
