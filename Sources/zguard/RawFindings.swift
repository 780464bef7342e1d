// What the processes of a run have found: the file that all of them append to, and those of processes that may not open
// it.

import Glibc
import ZombieGuard

/// The raw findings of a run, read as they come.
struct RawFindings {
    private let directory: RunDirectory
    /// Beside the report; nil where they lie in the run's directory, because there is no report, or nothing can be
    /// created beside it.
    let kept: RunFindings?
    private let file: Descriptor
    private var reader: FindingReader
    private var others: [(name: String, reader: FindingReader)] = []
    private var names: Set<String> = []
    /// A process of the run has made the file shorter.
    private(set) var wasCut = false

    /// Files of other users' processes that are open at a time.
    private static let mostOthers = 128

    /// Creates the file, which every guarded process opens.
    ///
    /// - Parameters:
    ///   - directory: the run's.
    ///   - report: path of the file that the report goes to; nil where it goes to none.
    init(in directory: RunDirectory, report: String?) throws(Failure) {
        self.directory = directory
        kept = Self.mayWriteFiles ? report.flatMap { try? RunFindings(beside: $0, run: directory.path) } : nil
        do throws(SystemError) {
            if let kept {
                if symlink(kept.path, directory.findings) != 0 { throw .last }
                file = kept.file
            } else {
                file = try Descriptor(opening: directory.findings, flags: O_RDONLY | O_CREAT | O_EXCL, mode: 0o600)
            }
        } catch {
            kept?.remove()
            throw Failure("cannot create '\(visible(directory.findings))': \(error)", status: ExitStatus.cannotGuard)
        }
        reader = FindingReader(file: file)
    }

    // Beyond the limit on the size of files a signal would end zguard (setrlimit(2), RLIMIT_FSIZE).
    private static var mayWriteFiles: Bool {
        var limit = rlimit()
        return getrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit) == 0 && limit.rlim_cur > 1 << 16
    }

    /// The next finding or skipped line; nil where there is none now.
    mutating func next() -> FindingReader.Entry? {
        if let entry = try? reader.next() { return entry }
        noticeCut()
        for index in others.indices {
            if let entry = try? others[index].reader.next() {
                kept?.lacksSome = true
                return entry
            }
        }
        return nil
    }

    /// Looks for files of processes that continue as another user. Now and then.
    mutating func look() {
        let room = Self.mostOthers - others.count
        for other in directory.ownFindings(atMost: room, except: names) { follow(other) }
    }

    /// What is left when the program has ended: also lines without an end.
    mutating func finish() -> FindingReader.Entry? {
        if let entry = next() ?? reader.finish() { return entry }
        while true {
            while let last = others.indices.last {
                if let entry = (try? others[last].reader.next()) ?? others[last].reader.finish() { return entry }
                others.removeLast()
            }
            guard let other = directory.ownFindings(atMost: 1, except: names).first else { return nil }
            follow(other)
        }
    }

    private mutating func follow(_ other: (name: String, file: Descriptor)) {
        names.insert(other.name)
        others.append((other.name, FindingReader(file: other.file)))
    }

    // A process that has given up its user's rights still has the file open, and can cut it. What comes after that
    // begins at the front.
    private mutating func noticeCut() {
        guard let size = file.status?.st_size, size < lseek(file.number, 0, SEEK_CUR) else { return }
        wasCut = true
        kept?.lacksSome = true
        lseek(file.number, 0, SEEK_SET)
    }
}
