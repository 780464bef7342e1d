// The symbols that a store of findings has: executables and debug files of builds, found by build-id.

import Glibc
import ZombieGuard
import ZombieGuardCore

/// Symbols that were uploaded to a store of findings, of one tenant.
public struct SymbolStore: Sendable {
    /// One file of a build.
    public struct Entry: Hashable, Sendable {
        /// Build-id in lower-case hexadecimal digits.
        public var buildID: String
        /// "executable" (also of libraries) or "debug" (a separate debug file).
        public var kind: String
        /// Name of the uploaded file, without its directory.
        public var name: String
        /// Size of the file in bytes.
        public var size: Int64
        /// Whether the file has debug information, and not only a symbol table.
        public var hasDebugInformation: Bool
        /// Time of the upload.
        public var time: Timestamp
    }

    /// What ``add(_:)`` did with a file.
    public enum Addition: Hashable, Sendable {
        case added
        /// The store has the same file, or a file of the same build and kind that has debug information, unlike this
        /// one.
        case present
        /// The files of the tenant would exceed the limit that the caller of `add` set.
        case tooMany
    }

    /// Limit of the files that a server takes for one tenant, in bytes before compression: ten files of the largest
    /// size.
    static let mostBytesOfTenant: Int64 = 40 << 30
    /// Limit of the decompressed sections that a thread of a server holds. A server takes no file that needs more.
    static let mostUnpacked: UInt64 = 1 << 30

    let address: FleetAddress
    let tenant: String

    /// Creates a handle for a store. Does not open the store.
    ///
    /// - Parameters:
    ///   - address: a directory or a database.
    ///   - tenant: name of the tenant; nil: the default one.
    public init(_ address: FleetAddress, tenant: String? = nil) {
        self.address = address
        self.tenant = ShippedFinding.short(tenant ?? ShippedFinding.Sender.standardTenant)
    }

    /// Adds a file, all of it or nothing. Replaces a stored file of the same build and kind, unless only the stored
    /// file has debug information.
    ///
    /// - Parameters:
    ///   - file: the file.
    ///   - most: limit of the bytes of all files of the tenant.
    /// - Returns: what was done, and the entry of the file.
    /// - Throws: ``FleetError`` if the store cannot be written.
    public func add(_ file: SymbolUpload, most: Int64 = .max) throws(FleetError) -> (addition: Addition, entry: Entry) {
        let keeper = try keeper(toWrite: true)
        let entry = Entry(
            buildID: file.symbols.buildID, kind: file.symbols.kind.rawValue, name: file.name, size: file.size,
            hasDebugInformation: file.symbols.hasDebugInformation,
            time: Timestamp(milliseconds: Timestamp.now.milliseconds))
        let entries = try keeper.entries()
        let old = entries.first { $0.buildID == entry.buildID && $0.kind == entry.kind }
        if let old {
            if old.hasDebugInformation, !entry.hasDebugInformation { return (.present, old) }
            if old.size == entry.size, try keeper.has(file.file, as: old) { return (.present, old) }
        }
        let bytes = entries.reduce(entry.size - (old?.size ?? 0)) { $0 + $1.size }
        if bytes > most { return (.tooMany, entry) }
        try keeper.add(file.file, entry)
        return (.added, entry)
    }

    /// Lists the files, in the order of their build-ids.
    ///
    /// - Returns: the entries.
    /// - Throws: ``FleetError`` if the store cannot be read.
    public func entries() throws(FleetError) -> [Entry] {
        try keeper().entries().sorted { ($0.buildID, $0.kind) < ($1.buildID, $1.kind) }
    }

    /// Removes files. Findings in a database keep the names that they got from these files.
    ///
    /// - Parameter entries: the files to remove.
    /// - Throws: ``FleetError`` if the store cannot be written.
    public func remove(_ entries: [Entry]) throws(FleetError) { try keeper(toWrite: true).remove(entries) }

    /// A source of these symbols; nil if there are none.
    package func provider() throws(FleetError) -> (any SymbolProvider)? {
        let keeper = try keeper()
        return try keeper.version() == nil ? nil : keeper
    }

    func keeper(toWrite: Bool = false) throws(FleetError) -> any SymbolKeeper {
        switch address {
        case .directory(let path): return try SymbolDirectory(path, tenant: tenant, toWrite: toWrite)
        case .sqlite(let path):
            let database = toWrite ? try SQLiteFleet(path: path) : try SQLiteFleet(reading: path)
            // Symbols may arrive before the first finding: create the tables.
            if toWrite { try database.prepare() }
            return SymbolTable(database, tenant: tenant)
        case .postgres(let address):
            let database = toWrite ? try PostgresFleet(address: address) : try PostgresFleet(reading: address)
            if toWrite { try database.prepare() }
            return SymbolTable(database, tenant: tenant)
        case .web, .openTelemetry: throw FleetError("'\(visible(address.name))' keeps no symbols")
        }
    }
}

/// A place where the symbols of one tenant are stored.
protocol SymbolKeeper: SymbolProvider {
    func entries() throws(FleetError) -> [SymbolStore.Entry]
    /// Whether the file of an entry has the same contents.
    func has(_ file: Descriptor, as entry: SymbolStore.Entry) throws(FleetError) -> Bool
    /// Adds a file, all of it or nothing, in place of one of the same build and kind.
    func add(_ file: Descriptor, _ entry: SymbolStore.Entry) throws(FleetError)
    func remove(_ entries: [SymbolStore.Entry]) throws(FleetError)
    /// A text that changes if files are added or removed; nil if there are none.
    func version() throws(FleetError) -> String?
}

/// A file that can be uploaded: an ELF file with a build-id that has symbols.
public struct SymbolUpload: Sendable {
    /// Path of the file.
    public let path: String
    let file: Descriptor
    let size: Int64
    let symbols: SymbolFile

    /// Build-id of the file, in lower-case hexadecimal digits.
    public var buildID: String { symbols.buildID }
    var name: String { String(path.split(separator: "/").last ?? "") }

    /// A file that cannot be uploaded, and why.
    public struct Refusal: Error, Hashable, Sendable {
        /// The reason, such as "it has no build-id".
        public var reason: String
        /// Whether the file was skipped because it is of no use, rather than wrong.
        public var isUseless: Bool

        /// Makes a refusal. Each parameter sets the property of the same name.
        public init(reason: String, isUseless: Bool) { (self.reason, self.isUseless) = (reason, isUseless) }
    }

    static let mostBytes: Int64 = 4 << 30

    /// Opens a file and reads its headers.
    ///
    /// - Parameter path: path of an ELF file. A path in a `.build-id` directory must match the build-id in the file.
    /// - Throws: ``Refusal`` if it cannot be uploaded.
    public init(_ path: String) throws(Refusal) {
        self.path = path
        do throws(SystemError) { file = try Descriptor(opening: path, flags: O_RDONLY | O_NONBLOCK) } catch {
            throw Refusal(reason: "\(error)", isUseless: false)
        }
        size = Int64(file.status?.st_size ?? 0)
        do throws(SymbolFile.Problem) { symbols = try SymbolFile(file, path: path) } catch {
            let isUseless = [.notELF, .noBuildID, .noSymbols].contains(error)
            throw Refusal(reason: error.description, isUseless: isUseless)
        }
        if size > Self.mostBytes { throw Refusal(reason: "it is larger than 4 GiB", isUseless: false) }
        if let named = Self.buildID(inName: path), named != symbols.buildID {
            throw Refusal(
                reason: "it has the build-id \(symbols.buildID), and its name says \(named)", isUseless: false)
        }
    }

    /// Reads the headers of a file that was received.
    ///
    /// - Parameters:
    ///   - file: the file, open for reading.
    ///   - name: its name, without a directory.
    /// - Throws: ``Refusal`` if it cannot be stored.
    init(_ file: Descriptor, name: String) throws(Refusal) {
        (path, self.file, size) = (name, file, Int64(file.status?.st_size ?? 0))
        do throws(SymbolFile.Problem) { symbols = try SymbolFile(file, path: name) } catch {
            throw Refusal(reason: error.description, isUseless: false)
        }
        // Symbolication with the file needs its decompressed sections in memory.
        if symbols.unpackedBytes > SymbolStore.mostUnpacked {
            throw Refusal(
                reason: "its sections are larger than \(SymbolStore.mostUnpacked >> 20) MiB when decompressed",
                isUseless: false)
        }
    }

    /// The build-id in the path of a file in a `.build-id` directory; nil for other paths.
    private static func buildID(inName path: String) -> String? {
        let parts = path.split(separator: "/")
        guard parts.count >= 3, parts[parts.count - 3] == ".build-id" else { return nil }
        var rest = parts[parts.count - 1]
        if rest.hasSuffix(".debug") { rest = rest.dropLast(".debug".count) }
        return String(parts[parts.count - 2] + rest)
    }

    /// Lists the regular files below a directory, in which symbols may be. Lists a file once, even if several links
    /// lead to it. Follows links to files, but not to directories.
    ///
    /// - Parameter path: path of a directory, or of a file.
    /// - Returns: the files, in the order of their paths; nil if the path is not that of a directory.
    public static func files(below path: String) -> [String]? {
        guard let directory = try? StoreDirectory(opening: path) else { return nil }
        var found: [String] = []
        var known: Set<[UInt64]> = []
        collect(directory, path, depth: 0, &found, &known)
        return found
    }

    private static let deepest = 64

    private static func collect(
        _ directory: StoreDirectory, _ path: String, depth: Int, _ found: inout [String], _ known: inout Set<[UInt64]>
    ) {
        for name in ((try? directory.names()) ?? []).sorted() where name != "." && name != ".." {
            let place = path.hasSuffix("/") ? path + name : "\(path)/\(name)"
            var status = stat()
            guard lstat(place, &status) == 0 else { continue }
            if status.st_mode & S_IFMT == S_IFDIR {
                if depth < deepest, let inner = try? directory.directory(name) {
                    collect(inner, place, depth: depth + 1, &found, &known)
                }
                continue
            }
            guard stat(place, &status) == 0, status.st_mode & S_IFMT == S_IFREG,
                known.insert([UInt64(status.st_dev), UInt64(status.st_ino)]).inserted
            else { continue }
            found.append(place)
        }
    }
}

/// A file without a name, which is gone when its descriptor is closed.
enum UnnamedFile {
    static func make() throws(FleetError) -> Descriptor {
        let folder = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
        var path = Array("\(folder.isEmpty ? "/tmp" : folder)/zguard-symbols-XXXXXX".utf8CString)
        let number = mkstemp(&path)
        if number < 0 { throw FleetError("cannot create a file in '\(visible(folder))': \(SystemError.last)") }
        unlink(path)
        _ = fcntl(number, F_SETFD, FD_CLOEXEC)
        return Descriptor(adopting: number)
    }
}
