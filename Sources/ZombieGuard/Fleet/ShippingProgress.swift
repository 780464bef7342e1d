// How far the reports of a directory have been shipped. Only an optimisation: what is shipped twice arrives once.

import Glibc

/// What has arrived at one destination, for the files of one directory. Lines beside the reports, of which the last about a file counts:
/// what is new is added, and now and then all is written anew.
struct ShippingProgress {
    struct Entry: Hashable {
        var inode: UInt64
        /// Bytes that have arrived, of a plain file; of a compressed one all or none.
        var offset: UInt64
        var lines: Int
        /// When the file was last written to, in nanoseconds, and its size, where all that there was has arrived.
        var written: Int64
        var size: UInt64
        /// Of what stands before the offset: the number of a file that was removed may be that of another.
        var digest: String

        func line(_ name: String) -> String {
            "\(inode)\t\(offset)\t\(lines)\t\(written)\t\(size)\t\(digest)\t\(name)\n"
        }
    }

    private(set) var entries: [String: Entry] = [:]
    let name: String
    private var unsaved: [String: Entry] = [:]
    /// Lines of the file; nil where it has to be written anew.
    private var written: Int?

    private static let mostBytes: UInt64 = 64 << 20
    private static let header = "zguard.progress/1"
    /// Lines that the file may have beyond twice those that count.
    private static let spareLines = 1000

    init(destination: String, in directory: StoreDirectory) {
        var digest = Digest()
        digest.add(destination)
        let name = ".zguard-collect-\(digest.digits(8))"
        self.name = name
        // What somebody who was killed has left.
        for file in (try? directory.names()) ?? [] where file.hasPrefix(name + ".") && file.hasSuffix(".tmp") {
            _ = directory.removeIfUnlocked(file)
        }
        guard let file = try? directory.open(name), let bytes = try? file.read(at: 0, upTo: Int(Self.mostBytes)) else {
            return
        }
        let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n")
        guard lines.first == Self.header[...] else { return }
        for line in lines.dropFirst() {
            // Of a line that nobody wrote to its end the next one is a part: its name has tabs.
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

    /// What is gone needs no memory.
    mutating func keep(only names: Set<String>) { entries = entries.filter { names.contains($0.key) } }

    mutating func set(_ entry: Entry, for name: String) {
        guard entries[name] != entry, !name.contains(where: { $0 == "\n" || $0 == "\t" }) else { return }
        entries[name] = entry
        unsaved[name] = entry
    }

    /// Throws where it cannot be kept: it will be read once more then.
    mutating func save(in directory: StoreDirectory) throws(SystemError) {
        if unsaved.isEmpty, entries.isEmpty { return }
        if let written, written + unsaved.count <= 2 * entries.count + Self.spareLines {
            if unsaved.isEmpty { return }
            // Somebody else's may stand there by now: then the same is shipped again.
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
