// Where symbols may be looked for.

import Glibc

/// Where the files of symbols are, besides the modules' own paths, the system's debug directory and the servers that
/// DEBUGINFOD_URLS names.
public struct SymbolSources: Hashable, Sendable {
    /// Directories that were brought along from the machine that a report comes from. Each is looked at as the root of its
    /// file system, as a directory of debug files by build-id, and as a directory with just the files.
    public var directories: [String]

    /// The program that this user runs, by its absolute path without links: its symbols are for findings of whatever user it continues as.
    package var program: String?

    /// Whether a path leads to something that this user has named, and not out of it.
    func isNamed(_ path: String) -> Bool {
        if path == program { return true }
        guard directories.contains(where: path.hasPrefix), let real = Self.resolved(path) else { return false }
        return directories.contains { directory in
            Self.resolved(directory).map { real.hasPrefix($0 == "/" ? "/" : $0 + "/") && $0 != "/" } ?? false
        }
    }

    /// A path without links; nil where there is no such file.
    package static func resolved(_ path: String) -> String? {
        guard let real = realpath(path, nil) else { return nil }
        defer { free(real) }
        return String(cString: real)
    }

    /// The system's directories of debug files.
    var debugDirectories = ["/usr/lib/debug"]
    /// How long a server may be silent, and how long all downloads together may take.
    var patience = DebugServer.Patience()

    /// Makes sources.
    ///
    /// - Parameter directories: where else to look, besides the modules' own places.
    public init(directories: [String] = []) { self.directories = directories }
}

/// What can be found of one module in ``SymbolSources``.
struct SymbolFiles {
    /// Path of the module, and its build-id where the finding has it.
    let module: String
    let buildID: String?
    let sources: SymbolSources
    /// Who has named the module.
    let author: Author

    /// Where the module itself was found; only the module's path where it was not.
    var found: ELFFile?

    init(module: String, buildID: String?, sources: SymbolSources, author: Author = .own) {
        self.module = module
        self.buildID = buildID
        self.sources = sources
        self.author = author
    }

    /// Opens a file that a finding names, directly or through another file. Files that this user has named (``SymbolSources``)
    /// are opened with this process's rights, all others with the rights of the finding's author.
    func open(_ path: String) throws(ELFFile.Failure) -> ELFFile {
        try ELFFile(path: path, author: author == .own || sources.isNamed(path) ? .own : author)
    }

    private var name: Substring { module.split(separator: "/").last ?? "" }

    /// Whether a text is a build-id: findings may say anything.
    static func isBuildID(_ text: String) -> Bool {
        (4...128).contains(text.utf8.count) && text.utf8.allSatisfy { "0123456789abcdef".utf8.contains($0) }
    }

    /// A build-id's file below a directory.
    private static func path(of buildID: String) -> String? {
        isBuildID(buildID) ? ".build-id/\(buildID.prefix(2))/\(buildID.dropFirst(2))" : nil
    }

    /// Places of the executable or library itself, the likeliest first.
    var modulePaths: [String] {
        var paths = sources.directories.flatMap { directory in
            [Self.join(directory, module), "\(directory)/\(name)"]
                + (buildID.flatMap(Self.path).map { ["\(directory)/\($0)", "\(directory)/usr/lib/debug/\($0)"] } ?? [])
        }
        // A relative path counts from a directory that is not known: only the build-id can tell whether it is the file.
        if module.hasPrefix("/") || buildID != nil { paths.append(module) }
        paths += sources.debugDirectories.compactMap { directory in
            buildID.flatMap(Self.path).map { "\(directory)/\($0)" }
        }
        return paths
    }

    /// Places of a file with the debug information of a build.
    func debugPaths(_ buildID: String) -> [String] {
        guard let path = Self.path(of: buildID) else { return [] }
        let own = sources.directories.flatMap { directory in
            ["\(directory)/\(path).debug", "\(directory)/usr/lib/debug/\(path).debug", "\(directory)/\(name).debug"]
        }
        return own + sources.debugDirectories.map { "\($0)/\(path).debug" }
    }

    /// The file with debug information that belongs to a module, by its build-id or by .gnu_debuglink.
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
            // The build-id says it for less than a look at all of the file.
            if let own = elf.buildID, let other = file.buildID {
                if own == other { return file }
            } else if file.checksum == checksum {
                return file
            }
        }
        return nil
    }

    /// Where files that belong to a file may be.
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

    /// The file that dwz moved common entries to: name and build-id stand in .gnu_debugaltlink.
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
        let byID = (sources.directories + sources.debugDirectories).flatMap { root in
            file.map { ["\(root)/\($0).debug", "\(root)/usr/lib/debug/\($0).debug"] } ?? []
        }
        let byName = sources.directories.map { "\($0)/\(name.split(separator: "/").last ?? "")" }
        for path in places + byID + byName {
            if let file = try? open(path), file.buildID == buildID { return file }
        }
        return nil
    }

    /// Places of split debug information: packages first, then the file that the compiler wrote.
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
