// Checks whether a program can be executed, and guarded by preloading the runtime.

import CSystem
import CZombie
import Glibc

/// Why a program cannot be executed or guarded.
public struct ProgramRefusal: Error, Hashable, Sendable {
    /// Exit status of `zguard run`.
    public enum Status: Int32, Sendable {
        /// The program can run, but cannot be guarded.
        case cannotGuard = 125
        /// The file is not a program, or may not be executed.
        case cannotRun = 126
        /// The file does not exist.
        case notFound = 127
    }

    /// Exit status of `zguard run` for this refusal.
    public var status: Status
    /// The reason as one line, lower case, with control characters escaped.
    public var message: String
    /// How the user can solve the problem.
    public var hint: String?

    /// Makes a refusal. Each parameter sets the property of the same name.
    public init(_ status: Status, _ message: String, hint: String? = nil) {
        self.status = status
        self.message = message
        self.hint = hint
    }
}

/// Finds programs and examines their files as the kernel and the dynamic loader would.
public struct ProgramCheck: Sendable {
    /// Search path in the format of PATH.
    public var searchPath: String
    private let ownMachine: UInt16?

    /// Nesting depth of script interpreters at which the kernel gives up.
    private static let deepestScript = 5
    private static let longestFirstLine = 256

    /// Makes a check.
    ///
    /// - Parameter searchPath: search path in the format of PATH; nil if PATH is unset.
    public init(searchPath: String?) {
        self.searchPath = searchPath ?? "/bin:/usr/bin"
        let own = OwnProgram.path.flatMap { try? Descriptor(opening: $0) }
        ownMachine = own.flatMap { file in (try? ELFImage(read: file.reader))?.machine }
    }

    /// Finds the file of a program: the name itself if it contains a slash, else the first executable in the search
    /// path.
    ///
    /// - Parameter name: name or path of a program, as typed in a shell.
    /// - Returns: the path of the file.
    /// - Throws: ``ProgramRefusal`` if there is no such executable.
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

    /// Checks that the file can be executed, and that the loader would preload the runtime into it.
    ///
    /// - Parameters:
    ///   - path: path of the file.
    ///   - name: the program's name in messages.
    /// - Throws: ``ProgramRefusal`` if the program cannot be executed or guarded.
    public func check(_ path: String, name: String) throws(ProgramRefusal) {
        try check(path, name: visible(name), depth: 0)
    }

    private func check(_ path: String, name: String, depth: Int) throws(ProgramRefusal) {
        let file: Descriptor
        do throws(SystemError) {
            file = try Descriptor(opening: path)
        } catch {
            return // executable but unreadable: leave the decision to the kernel
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

    // For setuid and setgid programs and programs with file capabilities, the kernel sets AT_SECURE, and the loader
    // ignores LD_PRELOAD entries with a path.
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
            .cannotGuard, "cannot guard '\(name)': it \(what), and the loader does not preload the library into it",
            hint: "guard a plain copy of it: cp does not copy these rights")
    }

    private func check(_ image: ELFImage, of file: Descriptor, path: String, name: String) throws(ProgramRefusal) {
        guard [ELFImage.FileType.executable, ELFImage.FileType.shared].contains(image.type) else {
            throw ProgramRefusal(.cannotRun, "cannot run '\(name)': Exec format error")
        }
        if let ownMachine, image.machine != ownMachine { throw foreign(name, "for another architecture") }
        // A guarded process calls the same function to decide whether a program that it executes gets the runtime.
        let kind = zg_program_classify(AT_FDCWD, path)
        switch kind {
        case zg_program_sanitized:
            throw ProgramRefusal(
                .cannotGuard,
                "cannot guard '\(name)': it is built with a sanitizer, whose allocator takes the place of any other",
                hint: "build it without -fsanitize=address, thread, memory or leak")
        case zg_program_emulator:
            throw ProgramRefusal(
                .cannotGuard,
                "cannot guard '\(name)': it is an emulator, which would preload the library into the emulated program",
                hint: "run the program itself on a machine that it is built for")
        default: break
        }
        guard let loader = image.interpreter(read: file.reader) else {
            // The program is a dynamic loader, which has no interpreter of its own. It preloads the runtime into the
            // program that it is given.
            let isLoader = path.split(separator: "/").last?.hasPrefix("ld-") ?? false
            if isLoader, image.segments.contains(where: { $0.type == ELFImage.SegmentType.dynamic }) { return }
            // A static executable that contains the runtime guards itself.
            if kind == zg_program_takes_it { return }
            throw ProgramRefusal(
                .cannotGuard, "cannot guard '\(name)': it is statically linked, so nothing can be preloaded into it",
                hint: "link it dynamically (without -static, -static-pie or -static-executable), or with libzguard.a")
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

    /// Why the file cannot be executed; nil if it can.
    private func unusable(_ path: String) -> SystemError? {
        var status = stat()
        guard stat(path, &status) == 0 else { return .last }
        if status.st_mode & S_IFMT == S_IFDIR { return SystemError(number: EISDIR) }
        guard status.st_mode & S_IFMT == S_IFREG, access(path, X_OK) == 0 else { return SystemError(number: EACCES) }
        return nil
    }
}

extension Descriptor {
    /// Reads at an offset, as ``ELFImage`` needs it: returns nothing on failure.
    var reader: (UInt64, Int) -> [UInt8] { { (try? self.read(at: $0, upTo: $1)) ?? [] } }
}
