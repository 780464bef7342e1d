// How far the reports of a directory have been shipped. Only an optimisation: what is shipped twice arrives once.

import Glibc

/// What has arrived at one destination, for the files of one directory. Written whole, beside the reports.
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
    }

    var entries: [String: Entry] = [:]
    let name: String

    private static let mostBytes: UInt64 = 64 << 20
    private static let header = "zguard.progress/1"

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
            let parts = line.split(separator: "\t", maxSplits: 6, omittingEmptySubsequences: false)
            guard parts.count == 7, let inode = UInt64(parts[0]), let offset = UInt64(parts[1]),
                let lines = Int(parts[2]),
                let written = Int64(parts[3]), let size = UInt64(parts[4])
            else { continue }
            entries[String(parts[6])] = Entry(
                inode: inode, offset: offset, lines: lines, written: written, size: size, digest: String(parts[5]))
        }
    }

    /// Throws where it cannot be kept: all will be read once more then.
    func save(in directory: StoreDirectory) throws(SystemError) {
        var text = Self.header + "\n"
        for (name, entry) in entries.sorted(by: { $0.key < $1.key }) where !name.contains("\n") {
            text +=
                "\(entry.inode)\t\(entry.offset)\t\(entry.lines)\t\(entry.written)\t\(entry.size)\t\(entry.digest)\t\(name)\n"
        }
        let temporary = "\(name).\(getpid()).tmp"
        do throws(SystemError) {
            let file = try directory.create(temporary)
            try file.write(text)
            if fsync(file.number) != 0 { throw .last }
            try directory.rename(temporary, to: name)
        } catch {
            directory.remove(temporary)
            throw error
        }
    }
}
