// Keeps symbol files, unchanged, in a hidden subdirectory of a directory of reports.

import Glibc
import ZombieGuard
import ZombieGuardCore

/// The directory `.zguard-symbols` in a directory of reports; tenants other than the default one have their own. A file
/// is called BUILDID.KIND.CONTENTS.NAME. It is written under a temporary name and put in place by rename.
final class SymbolDirectory: SymbolKeeper {
    private let store: StoreDirectory
    private let name: String
    private let directory: StoreDirectory?
    let budget = DecompressionBudget()

    /// Name of the directory of the default tenant; those of others begin with it.
    static let name = ".zguard-symbols"

    convenience init(_ path: String, tenant: String, toWrite: Bool) throws(FleetError) {
        var name = Self.name
        if tenant != ShippedFinding.Sender.standardTenant {
            var digest = Digest()
            digest.add(tenant)
            name += "-" + digest.digits(8)
        }
        try self.init(path, name: name, toWrite: toWrite)
    }

    init(_ path: String, name: String, toWrite: Bool = false) throws(FleetError) {
        self.name = name
        do {
            store = toWrite ? try StoreDirectory(creating: path) : try StoreDirectory(opening: path)
            directory = try store.directory(name, create: toWrite)
        } catch {
            throw FleetError("cannot open '\(visible(path))/\(name)': \(error)")
        }
    }

    private static let debug = "dwarf", table = "symtab"
    private static let longestName = 64

    private static func fileName(_ entry: SymbolStore.Entry) -> String {
        let safe = entry.name.utf8.prefix(longestName).map { byte in
            let isSafe =
                (0x30...0x39).contains(byte) || (0x41...0x5a).contains(byte) || (0x61...0x7a).contains(byte)
                || ".-_+".utf8.contains(byte)
            return isSafe ? byte : UInt8(ascii: "_")
        }
        let contents = entry.hasDebugInformation ? debug : table
        return "\(entry.buildID).\(entry.kind).\(contents).\(String(decoding: safe, as: UTF8.self))"
    }

    /// The files, with their names.
    private func files() throws(FleetError) -> [(file: String, entry: SymbolStore.Entry)] {
        guard let directory else { return [] }
        let names: [String]
        do throws(SystemError) { names = try directory.names() } catch {
            throw FleetError("cannot read '\(visible(directory.path))': \(error)")
        }
        return names.compactMap { file in
            let parts = file.split(separator: ".", maxSplits: 3, omittingEmptySubsequences: false).map(String.init)
            guard parts.count == 4, !parts[0].isEmpty, SymbolFileKind(rawValue: parts[1]) != nil,
                let status = directory.regularFile(file)
            else { return nil }
            let entry = SymbolStore.Entry(
                buildID: parts[0], kind: parts[1], name: parts[3], size: Int64(status.st_size),
                hasDebugInformation: parts[2] == Self.debug, time: Timestamp(status.st_mtim))
            return (file, entry)
        }
    }

    func entries() throws(FleetError) -> [SymbolStore.Entry] { try files().map(\.entry) }

    func has(_ file: Descriptor, as entry: SymbolStore.Entry) throws(FleetError) -> Bool {
        guard let directory, let kept = try? directory.open(Self.fileName(entry)) else { return false }
        var offset: UInt64 = 0
        while true {
            guard let ours = try? kept.read(at: offset, upTo: 1 << 20),
                let theirs = try? file.read(at: offset, upTo: 1 << 20), ours == theirs
            else { return false }
            if ours.isEmpty { return true }
            offset += UInt64(ours.count)
        }
    }

    func add(_ file: Descriptor, _ entry: SymbolStore.Entry) throws(FleetError) {
        guard let directory else { throw FleetError("'\(visible(store.path))' has no '\(name)'") }
        do {
            // Remove files of writers that were killed.
            for name in try directory.names() where name.hasPrefix(".") && name.hasSuffix(".tmp") {
                _ = directory.removeIfUnlocked(name)
            }
            let temporary = ".\(entry.buildID).\(String(UInt64.random(in: 0...UInt64.max), radix: 16)).tmp"
            let new = try directory.create(temporary)
            do {
                var offset: UInt64 = 0
                while true {
                    let bytes = try file.read(at: offset, upTo: 1 << 20)
                    if bytes.isEmpty { break }
                    try new.write(bytes: bytes)
                    offset += UInt64(bytes.count)
                }
                directory.share(new)
                if fsync(new.number) != 0 { throw SystemError.last }
                try directory.rename(temporary, to: Self.fileName(entry))
            } catch {
                directory.remove(temporary)
                throw error
            }
            for (name, old) in try files() where old.buildID == entry.buildID && old.kind == entry.kind {
                if name != Self.fileName(entry) { directory.remove(name) }
            }
        } catch let error as FleetError {
            throw error
        } catch {
            throw FleetError("cannot write to '\(visible(directory.path))': \(error)")
        }
    }

    func remove(_ entries: [SymbolStore.Entry]) throws(FleetError) {
        let wanted = Set(entries.map { [$0.buildID, $0.kind] })
        for (name, entry) in try files() where wanted.contains([entry.buildID, entry.kind]) {
            if directory?.remove(name) == false {
                throw FleetError("cannot remove '\(visible(name))': \(SystemError.last)")
            }
        }
    }

    func open(_ kind: SymbolFileKind, buildID: String) -> Descriptor? {
        let found = try? files().first { $0.entry.buildID == buildID && $0.entry.kind == kind.rawValue }
        return found.flatMap { try? directory?.open($0.file) }
    }

    func version() throws(FleetError) -> String? {
        let texts = try files().map { "\($0.file) \($0.entry.size) \($0.entry.time.rawValue)" }.sorted()
        return texts.isEmpty ? nil : texts.joined(separator: "\n")
    }
}
