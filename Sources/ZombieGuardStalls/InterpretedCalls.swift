// Finds the names of interpreted and just-in-time compiled functions in native stacks.

import Glibc
import ZombieGuard

/// The interpreted calls of the threads of one process, read while the threads are stopped.
struct InterpretedCalls {
    private let process: Int
    private let mappings: [Mapping]
    private let memory: ProcessMemory
    private let python: PythonRuntime?
    private var calls: [Int32: [PythonRuntime.Call]] = [:]

    init(process: Int, mappings: [Mapping], memory: ProcessMemory) {
        (self.process, self.mappings, self.memory) = (process, mappings, memory)
        python = PythonRuntime(mappings: mappings, memory: memory)
    }

    /// Reads the interpreted calls of stopped threads. Call before the threads run again.
    mutating func look(at stopped: StoppedThreads) {
        guard let python else { return }
        for thread in stopped.threads { calls[thread.id] = python.calls(of: thread.id, in: memory) }
    }

    /// The stack, with the interpreter's frames replaced by the interpreted functions, and with names for the frames of
    /// just-in-time compiled functions.
    ///
    /// - Parameter function: returns the name of the function at a frame.
    func named(
        _ stack: [Finding.Frame], of thread: Int32, _ maps: inout PerfMaps, function: (Finding.Frame) -> String?
    ) -> [Finding.Frame] {
        var stack = stack
        if let python, let calls = calls[thread], !calls.isEmpty {
            stack = python.stack(stack, calls, in: memory, function: function)
        }
        for index in stack.indices where stack[index].module == nil && stack[index].function == nil {
            maps.name(&stack[index], of: process)
        }
        return stack
    }
}

/// Names of just-in-time compiled code, from the files /tmp/perf-PID.map that V8, .NET and others write for perf(1) on
/// demand. Each line has the start and the size of a function's code in hexadecimal digits, and the function's name:
/// "3ef414c0 398 JS:*total file:///shop.js:12:7".
struct PerfMaps {
    private var known: [Int: PerfMap] = [:] // by process
    private static let mostKnown = 16

    mutating func name(_ frame: inout Finding.Frame, of process: Int) {
        if known.count >= Self.mostKnown, known[process] == nil { known = [:] }
        if known[process]?.covers(frame.pc.rawValue) != true, !known[process, default: PerfMap()].update(of: process) {
            known[process] = nil
        }
        known[process]?.name(&frame)
    }
}

private struct PerfMap {
    private struct Code {
        var start, end: UInt64
        var text: Range<Int>
    }

    private var bytes: [UInt8] = []
    private var codes: [Code] = [] // sorted by start
    private var parsed = 0 // end of the last whole line
    private var status = stat() // when the file was read

    private static let mostBytes = 64 << 20, longestName = 400

    /// Reads what was appended to the process's map, or the whole map if the file was replaced or rewritten. The path
    /// is relative to the process's root directory. The file must belong to the process's user: other users can write
    /// to /tmp.
    ///
    /// - Returns: false if there is no regular file, or if the file is empty, larger than `mostBytes`, or another
    ///   user's.
    mutating func update(of process: Int) -> Bool {
        guard let folder = try? ProcessFolder(of: process), let identity = folder.namespaced,
            let directory = try? Descriptor(
                opening: "/proc/\(process)/root/tmp", flags: O_RDONLY | O_DIRECTORY | O_NOFOLLOW),
            let file = try? Descriptor(
                opening: "perf-\(identity.process).map", in: directory, flags: O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
        else { return false }
        var new = stat()
        guard fstat(file.number, &new) == 0, new.st_mode & S_IFMT == S_IFREG, new.st_uid == identity.user,
            new.st_size > 0, new.st_size <= Self.mostBytes
        else { return false }
        let isSame = new.st_ino == status.st_ino && new.st_dev == status.st_dev
        if isSame, new.st_size == status.st_size, new.st_mtim.tv_sec == status.st_mtim.tv_sec,
            new.st_mtim.tv_nsec == status.st_mtim.tv_nsec
        {
            return true
        }
        if !isSame || new.st_size <= status.st_size { (bytes, codes, parsed) = ([], [], 0) }
        status = new
        bytes += (try? file.read(at: UInt64(bytes.count), upTo: Int(new.st_size) - bytes.count)) ?? []
        parse()
        return true
    }

    /// Parses the complete lines among the bytes read. The last line may be incomplete, because the program is still
    /// writing it.
    private mutating func parse() {
        let whole = bytes[parsed...].lastIndex(of: UInt8(ascii: "\n")) ?? parsed
        for line in bytes[parsed..<whole].split(separator: UInt8(ascii: "\n")) {
            let fields = line.split(separator: UInt8(ascii: " "), maxSplits: 2)
            guard fields.count == 3, let start = Self.number(fields[0]), let size = Self.number(fields[1]), size > 0,
                case (let end, false) = start.addingReportingOverflow(size)
            else { continue }
            codes.append(Code(start: start, end: end, text: fields[2].startIndex..<fields[2].endIndex))
        }
        parsed = whole
        // The sort is stable, so that `code(at:)` finds the last of several lines for one address. The sort costs only
        // a merge, because the earlier elements are sorted.
        codes.sort { $0.start < $1.start }
    }

    private static func number(_ digits: ArraySlice<UInt8>) -> UInt64? {
        let text = String(decoding: digits, as: UTF8.self)
        return UInt64(digits: text.hasPrefix("0x") ? text.dropFirst(2) : text[...], radix: 16)
    }

    private func code(at address: UInt64) -> Code? {
        let behind = codes.partitionPoint { $0.start > address }
        guard behind > 0, address < codes[behind - 1].end else { return nil }
        return codes[behind - 1]
    }

    func covers(_ address: UInt64) -> Bool { code(at: address) != nil }

    func name(_ frame: inout Finding.Frame) {
        guard let code = code(at: frame.pc.rawValue) else { return }
        let text = String(decoding: bytes[code.text].prefix(Self.longestName), as: UTF8.self)
        let name = CompiledName(text)
        (frame.function, frame.file, frame.line, frame.column) = (name.function, name.file, name.line, name.column)
    }
}

/// A name in a map: V8 writes "JS:*total file:///srv/shop.js:12:7", other compilers write only the function's name.
struct CompiledName: Equatable {
    var function: String
    var file: String?
    var line: Int?, column: Int?

    private static let kinds = ["JS:", "LazyCompile:", "Function:", "Eval:", "Script:"]

    init(_ text: String) {
        function = text
        guard let kind = Self.kinds.first(where: { text.hasPrefix($0) }) else { return }
        // The tier of the compiler.
        let name = text.dropFirst(kind.count).drop { "~*^+".contains($0) }
        function = String(name)
        guard let space = name.lastIndex(of: " ") else { return }
        let parts = name[name.index(after: space)...].split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count >= 3, let line = Int(digits: parts[parts.count - 2]),
            let column = Int(digits: parts[parts.count - 1])
        else { return }
        let path = parts.dropLast(2).joined(separator: ":")
        let scheme = "file://"
        (self.line, self.column) = (line, column)
        file = path.hasPrefix(scheme) ? String(path.dropFirst(scheme.count)) : path
        let function = name[..<space]
        self.function = function.isEmpty ? "(anonymous)" : String(function)
    }
}
