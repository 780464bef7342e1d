// Whether a program can be run, and guarded by a preloaded library.

import CSystem
import CZombie
import Glibc

/// Why a program cannot be run or guarded.
public struct ProgramRefusal: Error, Hashable, Sendable {
    /// The exit status of `zguard run`.
    public enum Status: Int32, Sendable {
        /// It could be run, but not guarded.
        case cannotGuard = 125
        /// It is no program, or may not be executed.
        case cannotRun = 126
        /// There is no such file.
        case notFound = 127
    }

    /// What `zguard run` exits with.
    public var status: Status
    /// One line, lower case; safe to print.
    public var message: String
    /// What one can do about it.
    public var hint: String?

    /// Makes a refusal of its parts. Each parameter is the property of its name.
    public init(_ status: Status, _ message: String, hint: String? = nil) {
        self.status = status
        self.message = message
        self.hint = hint
    }
}

/// Finds programs and looks into their files, as far as the kernel and the loader would.
public struct ProgramCheck: Sendable {
    /// The search path, as in PATH.
    public var searchPath: String
    private let ownMachine: UInt16?

    /// Interpreters of interpreters that the kernel follows.
    private static let deepestScript = 5
    private static let longestFirstLine = 256

    /// Makes a check.
    ///
    /// - Parameter searchPath: as in PATH; nil where there is none.
    public init(searchPath: String?) {
        self.searchPath = searchPath ?? "/bin:/usr/bin"
        let own = OwnProgram.path.flatMap { try? Descriptor(opening: $0) }
        ownMachine = own.flatMap { file in (try? ELFImage(read: file.reader))?.machine }
    }

    /// The file that a name stands for: itself where it holds a slash, else the first executable of the search path.
    ///
    /// - Parameter name: as it would be typed.
    /// - Returns: the path of a file.
    /// - Throws: ``ProgramRefusal`` where there is none.
    public func resolve(_ name: String) throws(ProgramRefusal) -> String {
        if name.contains("/") {
            if let reason = unusable(name) { throw refusal(of: name, for: reason) }
            return name
        }
        var found: SystemError?
        for directory in name.isEmpty ? [] : searchPath.split(separator: ":", omittingEmptySubsequences: false) {
            let path = (directory.isEmpty ? "." : String(directory)) + "/" + name
            guard let reason = unusable(path) else { return path }
            if ![ENOENT, ENOTDIR, EISDIR].contains(reason.number) { found = reason }
        }
        if let found { throw refusal(of: name, for: found) }
        throw ProgramRefusal(.notFound, "cannot find program '\(visible(name))'")
    }

    /// Throws where the file cannot be run, or the runtime would not be loaded into it. `name` is what messages call it.
    ///
    /// - Parameters:
    ///   - path: of the file.
    ///   - name: what messages call it.
    /// - Throws: ``ProgramRefusal`` where it cannot be run or guarded.
    public func check(_ path: String, name: String) throws(ProgramRefusal) {
        try check(path, name: visible(name), depth: 0)
    }

    private func check(_ path: String, name: String, depth: Int) throws(ProgramRefusal) {
        let file: Descriptor
        do throws(SystemError) {
            file = try Descriptor(opening: path)
        } catch {
            return // executable but not readable: nothing to look into, the kernel decides
        }
        let beginning = (try? file.read(at: 0, upTo: Self.longestFirstLine)) ?? []
        if beginning.starts(with: "#!".utf8) {
            return try checkInterpreter(inLine: beginning, name: name, depth: depth)
        }
        try checkPrivileges(file, path: path, name: name)
        let image: ELFImage
        do throws(ELFImage.Failure) {
            image = try ELFImage(read: file.reader)
        } catch {
            switch error {
            case .notELF, .damaged: throw ProgramRefusal(.cannotRun, "cannot run '\(name)': Exec format error")
            case .foreign(let is32Bit): throw foreign(name, is32Bit ? "a 32-bit program" : "for another architecture")
            }
        }
        try check(image, of: file, path: path, name: name)
    }

    private func checkInterpreter(inLine line: [UInt8], name: String, depth: Int) throws(ProgramRefusal) {
        let blanks = [UInt8(ascii: " "), UInt8(ascii: "\t")]
        let words = line.dropFirst(2).prefix { $0 != UInt8(ascii: "\n") }.split { blanks.contains($0) || $0 == 13 }
        guard let word = words.first, depth < Self.deepestScript else {
            throw ProgramRefusal(.cannotRun, "cannot run '\(name)': Exec format error")
        }
        let interpreter = String(decoding: word, as: UTF8.self)
        if let reason = unusable(interpreter) {
            let called = visible(interpreter)
            throw ProgramRefusal(.cannotRun, "cannot run '\(name)': its interpreter '\(called)': \(reason)")
        }
        try check(interpreter, name: visible(interpreter), depth: depth + 1)
    }

    // The kernel marks such programs as secure, and the loader then ignores LD_PRELOAD.
    private func checkPrivileges(_ file: Descriptor, path: String, name: String) throws(ProgramRefusal) {
        let mode = file.status?.st_mode ?? 0
        let what =
            if mode & S_ISUID != 0 {
                "is a setuid executable"
            } else if mode & S_ISGID != 0 {
                "is a setgid executable"
            } else if zg_system_has_file_capabilities(path) != 0 {
                "has file capabilities"
            } else { "" }
        if what.isEmpty { return }
        throw ProgramRefusal(
            .cannotGuard, "cannot guard '\(name)': it \(what), into which the loader preloads nothing",
            hint: "guard a plain copy of it: cp does not copy these rights")
    }

    private func check(_ image: ELFImage, of file: Descriptor, path: String, name: String) throws(ProgramRefusal) {
        guard [ELFImage.FileType.executable, ELFImage.FileType.shared].contains(image.type) else {
            throw ProgramRefusal(.cannotRun, "cannot run '\(name)': Exec format error")
        }
        if let ownMachine, image.machine != ownMachine { throw foreign(name, "for another architecture") }
        // The rule by which guarded processes leave the library out of the programs that they start.
        switch zg_program_look(AT_FDCWD, path) {
        case zg_program_sanitized:
            throw ProgramRefusal(
                .cannotGuard,
                "cannot guard '\(name)': it is built with a sanitizer, whose allocator takes the place of any other",
                hint: "build it without -fsanitize=address, thread, memory or leak")
        case zg_program_emulator:
            throw ProgramRefusal(
                .cannotGuard,
                "cannot guard '\(name)': it emulates another program, into which it would preload the library",
                hint: "run the program itself on a machine that it is built for")
        default: break
        }
        guard let loader = image.interpreter(read: file.reader) else {
            // The dynamic loader itself needs no other, and preloads into the program that it is given.
            let isLoader = path.split(separator: "/").last?.hasPrefix("ld-") ?? false
            if isLoader, image.segments.contains(where: { $0.type == ELFImage.SegmentType.dynamic }) { return }
            throw ProgramRefusal(
                .cannotGuard, "cannot guard '\(name)': it is statically linked, so nothing can be preloaded into it",
                hint: "link it dynamically (without -static, -static-pie or -static-executable)")
        }
        if loader.split(separator: "/").last?.hasPrefix("ld-musl") ?? false {
            throw ProgramRefusal(
                .cannotGuard, "cannot guard '\(name)': it is linked with musl, the runtime with glibc",
                hint: "build it for glibc")
        }
        if let reason = unusable(loader) {
            throw ProgramRefusal(.cannotRun, "cannot run '\(name)': its loader '\(visible(loader))': \(reason)")
        }
    }

    private func foreign(_ name: String, _ what: String) -> ProgramRefusal {
        ProgramRefusal(
            .cannotGuard, "cannot guard '\(name)': it is \(what)", hint: "build it for the machine that zguard runs on")
    }

    private func refusal(of name: String, for reason: SystemError) -> ProgramRefusal {
        if reason.number == ENOENT || reason.number == ENOTDIR {
            return ProgramRefusal(.notFound, "cannot find program '\(visible(name))'")
        }
        return ProgramRefusal(.cannotRun, "cannot run '\(visible(name))': \(reason)")
    }

    /// Why the file cannot be executed; nil where it can.
    private func unusable(_ path: String) -> SystemError? {
        var status = stat()
        guard stat(path, &status) == 0 else { return .last }
        if status.st_mode & S_IFMT == S_IFDIR { return SystemError(number: EISDIR) }
        guard status.st_mode & S_IFMT == S_IFREG, access(path, X_OK) == 0 else { return SystemError(number: EACCES) }
        return nil
    }
}

extension Descriptor {
    /// Reads at an offset, nothing where that fails: what ``ELFImage`` wants.
    var reader: (UInt64, Int) -> [UInt8] { { (try? self.read(at: $0, upTo: $1)) ?? [] } }
}
