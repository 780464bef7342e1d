// Lists the paths where executables and debug files are looked for, and opens them.

import Glibc

/// Where to look for executables and debug files, besides the modules' own paths, the system's debug directory and the
/// servers in DEBUGINFOD_URLS.
public struct SymbolSources: Hashable, Sendable {
    /// Directories copied from the machine that wrote a report. Each is tried as the root of that machine's file
    /// system, as a debug directory (one that has a `.build-id` directory, or that directory itself), and as a flat
    /// directory of files. Files with build-ids may have any name.
    public var directories: [String]

    /// Absolute path, without symbolic links, of the program that this user runs. Its symbols are used for findings of
    /// any user that the program switches to.
    package var program: String?

    /// Whether this user has named the path: it is the program, or resolves to a file below one of the directories.
    func isNamed(_ path: String) -> Bool {
        if path == program { return true }
        guard directories.contains(where: path.hasPrefix), let real = Self.resolved(path) else { return false }
        return directories.contains { directory in
            Self.resolved(directory).map { real.hasPrefix($0 == "/" ? "/" : $0 + "/") && $0 != "/" } ?? false
        }
    }

    /// Resolves symbolic links; nil if there is no such file.
    package static func resolved(_ path: String) -> String? {
        guard let real = realpath(path, nil) else { return nil }
        defer { free(real) }
        return String(cString: real)
    }

    /// The system's debug directories.
    var debugDirectories = ["/usr/lib/debug"]
    /// Timeouts for servers.
    var patience = DebugServer.Timeouts()

    /// Creates sources.
    ///
    /// - Parameter directories: directories to search besides the modules' own paths.
    public init(directories: [String] = []) { self.directories = directories }
}

/// The files of one module in ``SymbolSources``.
struct SymbolFiles {
    /// Path of the module, and its build-id if the finding has it.
    let module: String
    let buildID: String?
    let sources: SymbolSources
    /// Author of the finding that names the module; `open` uses the author's rights for files that the finding names.
    let author: Author

    /// The module's file, if found; its path is used to find split debug files.
    var found: ELFFile?
    /// Files that are found by build-id alone.
    var provided: ProvidedFiles?

    init(module: String, buildID: String?, sources: SymbolSources, author: Author = .own) {
        self.module = module
        self.buildID = buildID
        self.sources = sources
        self.author = author
    }

    /// Opens a file that a finding names, directly or through another file. Files that this user has named
    /// (``SymbolSources``) are opened with the rights of this process, all others with the rights of the finding's
    /// author.
    func open(_ path: String) throws(ELFFile.Failure) -> ELFFile {
        try ELFFile(path: path, author: author == .own || sources.isNamed(path) ? .own : author)
    }

    private var name: Substring { module.split(separator: "/").last ?? "" }

    /// Whether a string is a valid build-id. Checked because findings are untrusted.
    static func isBuildID(_ text: String) -> Bool {
        (4...128).contains(text.utf8.count) && text.utf8.allSatisfy { "0123456789abcdef".utf8.contains($0) }
    }

    /// Path of a build-id's file below a debug directory, without extension.
    private static func path(of buildID: String) -> String? {
        isBuildID(buildID) ? ".build-id/\(buildID.prefix(2))/\(buildID.dropFirst(2))" : nil
    }

    /// Paths of a build-id's file, without extension, below a directory that this user has named.
    private static func paths(of buildID: String, in directory: String) -> [String] {
        guard let path = path(of: buildID) else { return [] }
        return [path, "usr/lib/debug/\(path)", "\(path.dropFirst(".build-id/".count))"].map { "\(directory)/\($0)" }
    }

    /// Paths to try for the executable or library itself, likeliest first.
    var modulePaths: [String] {
        var paths = sources.directories.flatMap { directory in
            [Self.join(directory, module), "\(directory)/\(name)"]
                + (buildID.map { Self.paths(of: $0, in: directory) } ?? [])
        }
        // The base directory of a relative path is unknown: accept the file only if a build-id can confirm it.
        if module.hasPrefix("/") || buildID != nil { paths.append(module) }
        paths += sources.debugDirectories.compactMap { directory in
            buildID.flatMap(Self.path).map { "\(directory)/\($0)" }
        }
        // These files come last: one of them may be a debug file, which lacks the contents of the module.
        return paths + filesWithAnyName(buildID)
    }

    /// Paths to try for the debug file of a build.
    func debugPaths(_ buildID: String) -> [String] {
        guard let path = Self.path(of: buildID) else { return [] }
        let own = sources.directories.flatMap { directory in
            Self.paths(of: buildID, in: directory).map { $0 + ".debug" } + ["\(directory)/\(name).debug"]
        }
        return own + filesWithAnyName(buildID) + sources.debugDirectories.map { "\($0)/\(path).debug" }
    }

    /// Files with this build-id in the directories that this user has named, such as the debug files of many builds.
    private func filesWithAnyName(_ buildID: String?) -> [String] {
        guard let buildID else { return [] }
        return sources.directories.flatMap { BuildIDs.files(in: $0, buildID) }
    }

    /// The debug file of a module, found by build-id or .gnu_debuglink.
    func debugFile(of elf: ELFFile?) -> ELFFile? {
        if let buildID = elf?.buildID ?? buildID {
            for path in debugPaths(buildID) {
                if let file = try? open(path), file.buildID == buildID, file.hasDebugInformation {
                    return file
                }
            }
        }
        return elf.flatMap(linkedFile)
    }

    private func linkedFile(_ elf: ELFFile) -> ELFFile? {
        var link = ByteCursor(elf.contents(".gnu_debuglink"))
        let name = link.text()
        link.skip((4 - link.position % 4) % 4)
        let checksum: UInt32 = link.number()
        guard !link.failed, !name.isEmpty, !name.contains("/") else { return nil }
        for directory in directories(besides: elf) {
            guard let file = try? open("\(directory)/\(name)"), file.hasDebugInformation else { continue }
            // Comparing build-ids is cheaper than a checksum of the whole file.
            if let own = elf.buildID, let other = file.buildID {
                if own == other { return file }
            } else if file.checksum == checksum {
                return file
            }
        }
        return nil
    }

    /// Directories to search for the companion files of an ELF file.
    private func directories(besides elf: ELFFile) -> [String] {
        let own = Self.directory(elf.path)
        var found = [own, "\(own)/.debug"]
        for place in Set([elf.path, module]).map(Self.directory).sorted() {
            found += sources.debugDirectories.map { Self.join($0, place) }
        }
        let place = Self.directory(module)
        for root in sources.directories {
            found += [root, "\(root)/.debug", Self.join(root, place)]
            found += sources.debugDirectories.map { Self.join(root, Self.join($0, place)) }
        }
        return found
    }

    /// The supplementary file of dwz. .gnu_debugaltlink has its name and build-id.
    func alternate(of elf: ELFFile) -> ELFFile? {
        let section = elf.contents(".gnu_debugaltlink")
        var link = ByteCursor(section)
        let name = link.text()
        guard !link.failed, !name.isEmpty else { return nil }
        let buildID = hexadecimal(section[link.offset...].prefix(64))
        let places =
            name.hasPrefix("/")
            ? [name] + sources.directories.map { Self.join($0, name) }
            : directories(besides: elf).map { "\($0)/\(name)" }
        let file = Self.path(of: buildID)
        let byID =
            sources.directories.flatMap { Self.paths(of: buildID, in: $0).map { $0 + ".debug" } }
            + sources.debugDirectories.flatMap { root in
                file.map { ["\(root)/\($0).debug", "\(root)/usr/lib/debug/\($0).debug"] } ?? []
            }
        let byName = sources.directories.map { "\($0)/\(name.split(separator: "/").last ?? "")" }
        for path in places + byID + byName {
            if let file = try? open(path), file.buildID == buildID { return file }
        }
        return provided?.file(.debug, buildID)
    }

    /// Paths to try for split debug information: packages (.dwp) first, then the file that the compiler wrote (.dwo).
    func splitFiles(_ name: String, directory: String?) -> [String] {
        let own = found.map(\.path) ?? module
        var paths = ["\(own).dwp", "\(Self.directory(own))/\(self.name).dwp", "\(own.dropSuffix(".debug")).dwp"]
        paths += sources.directories.flatMap { ["\($0)/\(self.name).dwp", Self.join($0, module) + ".dwp"] }
        let full = name.hasPrefix("/") ? name : directory.map { Self.join($0, name) }
        let last = name.split(separator: "/").last ?? ""
        if let full { paths += [full] + sources.directories.map { Self.join($0, full) } }
        paths += ([Self.directory(own)] + sources.directories).flatMap { ["\($0)/\(name)", "\($0)/\(last)"] }
        var known: Set<String> = []
        return paths.filter { known.insert($0).inserted }
    }

    // MARK: Paths

    private static func join(_ directory: String, _ path: String) -> String {
        path.hasPrefix("/") || directory.hasSuffix("/") ? directory + path : "\(directory)/\(path)"
    }

    private static func directory(_ path: String) -> String {
        guard let slash = path.lastIndex(of: "/") else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }
}

extension String {
    fileprivate func dropSuffix(_ suffix: String) -> String {
        hasSuffix(suffix) ? String(dropLast(suffix.count)) : self
    }
}
