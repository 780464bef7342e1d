// Raw findings that stay beside a report because the zguard of the run was killed.

import CSystem
import Glibc

/// An unlocked file that ``RunFindings`` created: raw findings of a run that are not in its report yet.
package struct UnfinishedFindings: Hashable, Sendable {
    /// Path of the file, beside the report.
    package let path: String
    /// Whether the program still runs and may append findings.
    package let isGrowing: Bool
    /// Time of the last write, size in bytes, and owner, as of the lookup.
    package let written: Timestamp
    package let size: UInt64
    package let owner: uid_t
    let name: String

    private static let infix = ".unfinished-"
    private static let digits = 8

    /// Makes a new name beside a report.
    static func name(for report: String) -> String {
        let random = String(UInt32.random(in: 0...UInt32.max), radix: 16)
        return report + infix + String(repeating: "0", count: digits - random.count) + random
    }

    /// The temporary name of a new version of the report. `name`: the file of raw findings beside the report.
    static func replacement(for name: String) -> String { name + ".new" }

    /// The name of the report that a file belongs to; nil for other files.
    static func report(of name: String) -> String? {
        guard let range = name.ranges(of: infix).last else { return nil }
        let suffix = name[range.upperBound...].utf8
        let isHexadecimal = suffix.allSatisfy { (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }
        return suffix.count == digits && isHexadecimal ? String(name[..<range.lowerBound]) : nil
    }

    /// The files beside a report, oldest first.
    package static func beside(_ report: String) -> [UnfinishedFindings] {
        let (folder, name) = RunFindings.split(report)
        guard let directory = try? StoreDirectory(at: folder), let names = try? directory.names() else { return [] }
        return beside(name, names, in: directory)
    }

    static func beside(_ report: String, _ names: [String], in directory: StoreDirectory) -> [UnfinishedFindings] {
        names.filter { Self.report(of: $0) == report }.compactMap { Self($0, in: directory) }
            .sorted { ($0.written, $0.path) < ($1.written, $1.path) }
    }

    /// nil if a live zguard has the file locked, or it is not a regular file.
    init?(_ name: String, in directory: StoreDirectory) {
        guard let status = directory.regularFile(name), let file = try? directory.open(name),
            flock(file.number, LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK
        else { return nil }
        self.name = name
        path = "\(directory.path)/\(name)"
        written = Timestamp(status.st_mtim)
        size = UInt64(max(0, status.st_size))
        owner = status.st_uid
        isGrowing = Self.hasWriters(file)
    }

    // If the file system cannot report whether the file has writers, assumes that the program has ended after a minute
    // without a write.
    private static func hasWriters(_ file: Descriptor) -> Bool {
        let answer = zg_system_has_writers(file.number)
        if answer >= 0 { return answer != 0 }
        return file.status.map { $0.st_mtim.tv_sec > time(nil) - 60 } ?? false
    }

    /// Calls `take` for each raw finding that a report lacks, with the text and the number of its line.
    ///
    /// - Parameters:
    ///   - report: a reader at the beginning of the report; nil if there is none.
    ///   - take: called with each finding.
    /// - Throws: ``SystemError`` if one of the files cannot be read.
    package func forEachFinding(
        missingIn report: FindingReader?, _ take: (Finding, _ text: String, _ line: Int) throws -> Void
    ) throws {
        var known: [FindingIdentity: Int] = [:]
        if var report {
            while let entry = try report.next() ?? report.finish() {
                if case .finding(let finding, _) = entry { known[FindingIdentity(finding), default: 0] += 1 }
            }
        }
        func read(_ reader: inout FindingReader) throws {
            while let entry = try reader.next() ?? reader.finish() {
                guard case .finding(let finding, let line) = entry else { continue }
                if let count = known[FindingIdentity(finding)], count > 0 {
                    known[FindingIdentity(finding)] = count - 1
                } else {
                    try take(finding, reader.text, line)
                }
            }
        }
        var reader = FindingReader(file: try Descriptor(opening: path, flags: O_RDONLY | O_NOFOLLOW | O_NONBLOCK))
        try read(&reader)
        guard let run = reader.unfinished, let directory = RunDirectory(remaining: run.directory) else { return }
        var names: Set<String> = []
        while let own = directory.ownFindings(atMost: 1, except: names).first {
            names.insert(own.name)
            var reader = FindingReader(file: own.file)
            try read(&reader)
        }
    }

    /// The first line of the file; nil if zguard was killed before it wrote the line.
    private var run: UnfinishedLine? {
        guard let file = try? Descriptor(opening: path, flags: O_RDONLY | O_NOFOLLOW | O_NONBLOCK) else { return nil }
        var reader = FindingReader(file: file)
        _ = try? reader.next()
        return reader.unfinished
    }

    /// Whether the report holds findings of this run only.
    package var hasBegun: Bool { run?.hasBegun ?? false }

    /// Removes the file, and the remaining directory of the run.
    package func remove() {
        if let run { RunDirectory(remaining: run.directory)?.remove() }
        unlink(Self.replacement(for: path))
        unlink(path)
    }
}
