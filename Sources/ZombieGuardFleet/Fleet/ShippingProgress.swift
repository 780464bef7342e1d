// Records how much of each report has been shipped. Only an optimization: destinations detect repeated findings.

import Glibc
import ZombieGuard

/// Shipping progress to one destination for the reports of a directory, in a file beside them with one entry per line.
/// If a report has several entries, the last one is valid. New entries are appended; the file is rewritten when it has
/// too many superseded ones.
struct ShippingProgress {
    struct Entry: Hashable {
        var inode: UInt64
        /// Number of bytes of an uncompressed report that have arrived; 0 for a compressed report, which is shipped as
        /// a whole.
        var offset: UInt64
        var lines: Int
        /// The file's modification time in nanoseconds, and its size; both are 0 until the whole file has arrived.
        var written: Int64
        var size: UInt64
        /// Digest of the bytes before the offset. It detects another file, because the inode number of a removed file
        /// may be reused.
        var digest: String

        func line(_ name: String) -> String {
            "\(inode)\t\(offset)\t\(lines)\t\(written)\t\(size)\t\(digest)\t\(name)\n"
        }
    }

    private(set) var entries: [String: Entry] = [:]
    let name: String
    private var unsaved: [String: Entry] = [:]
    /// Number of lines in the progress file; nil if it must be rewritten.
    private var written: Int?

    private static let mostBytes: UInt64 = 64 << 20
    private static let header = "zguard.progress/1"
    /// Lines allowed in the file beyond twice the number of entries.
    private static let spareLines = 1000

    init(destination: String, in directory: StoreDirectory) {
        var digest = Digest()
        digest.add(destination)
        let name = ".zguard-collect-\(digest.digits(8))"
        self.name = name
        // Remove temporary files of processes that were killed.
        for file in (try? directory.names()) ?? [] where file.hasPrefix(name + ".") && file.hasSuffix(".tmp") {
            _ = directory.removeIfUnlocked(file)
        }
        guard let file = try? directory.open(name), let bytes = try? file.read(at: 0, upTo: Int(Self.mostBytes)) else {
            return
        }
        let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n")
        guard lines.first == Self.header[...] else { return }
        for line in lines.dropFirst() {
            // A torn line is joined with the next one, and has too many tabs.
            let parts = line.split(separator: "\t", omittingEmptySubsequences: false)
            guard parts.count == 7, let inode = UInt64(digits: parts[0]), let offset = UInt64(digits: parts[1]),
                let lines = Int(digits: parts[2]),
                let written = Int64(signedDigits: parts[3]), let size = UInt64(digits: parts[4])
            else { continue }
            entries[String(parts[6])] = Entry(
                inode: inode, offset: offset, lines: lines, written: written, size: size, digest: String(parts[5]))
        }
        if UInt64(bytes.count) < Self.mostBytes, bytes.last == UInt8(ascii: "\n") { written = lines.count - 1 }
    }

    /// Removes the entries of reports that are not in `names`, because these reports were removed.
    mutating func keep(only names: Set<String>) { entries = entries.filter { names.contains($0.key) } }

    mutating func set(_ entry: Entry, for name: String) {
        guard entries[name] != entry, !name.contains(where: { $0 == "\n" || $0 == "\t" }) else { return }
        entries[name] = entry
        unsaved[name] = entry
    }

    /// Saves the entries. Throws if the file cannot be written; then reports will be read again.
    mutating func save(in directory: StoreDirectory) throws(SystemError) {
        if unsaved.isEmpty, entries.isEmpty { return }
        if let written, written + unsaved.count <= 2 * entries.count + Self.spareLines {
            if unsaved.isEmpty { return }
            // Another process may have replaced the file. Then some reports are shipped again.
            let file = try directory.open(name, flags: O_WRONLY | O_APPEND)
            try file.write(Self.text(of: unsaved))
            self.written = written + unsaved.count
        } else {
            written = nil
            let temporary = "\(name).\(getpid()).tmp"
            do throws(SystemError) {
                let file = try directory.create(temporary)
                try file.write(Self.header + "\n" + Self.text(of: entries))
                if fsync(file.number) != 0 { throw .last }
                try directory.rename(temporary, to: name)
            } catch {
                directory.remove(temporary)
                throw error
            }
            written = entries.count
        }
        unsaved = [:]
    }

    private static func text(of entries: [String: Entry]) -> String {
        entries.sorted { $0.key < $1.key }.map { $0.value.line($0.key) }.joined()
    }
}
