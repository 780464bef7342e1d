// Reads the raw findings of a run: the file that all its processes append to, and the files of processes that may not
// open it.

import Glibc
import ZombieGuard

/// The raw findings of a run, read while the program runs.
struct RawFindings {
    private let directory: RunDirectory
    /// The raw findings file beside the report; nil if the file is in the run's directory, because there is no report
    /// or no file can be created beside it.
    let kept: RunFindings?
    private let file: Descriptor
    private var reader: FindingReader
    private var others: [(name: String, reader: FindingReader)] = []
    private var names: Set<String> = []
    /// Whether a process of the run truncated the file.
    private(set) var wasCut = false

    /// Maximum number of open raw findings files of processes that have changed their user.
    private static let mostOthers = 128

    /// Creates the file, which every guarded process opens.
    ///
    /// - Parameters:
    ///   - directory: directory of the run.
    ///   - report: path of the report file; nil if there is none.
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

    // Whether RLIMIT_FSIZE allows files of more than 64 KiB. Beyond the limit, SIGXFSZ would kill zguard
    // (setrlimit(2)).
    private static var mayWriteFiles: Bool {
        var limit = rlimit()
        return getrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit) == 0 && limit.rlim_cur > 1 << 16
    }

    /// The next finding or skipped line; nil if none has arrived yet.
    mutating func next() -> FindingReader.Entry? {
        if let entry = try? reader.next() { return entry }
        noticeCut()
        for index in others.indices {
            if let entry = try? others[index].reader.next() {
                kept?.isIncomplete = true
                return entry
            }
        }
        return nil
    }

    /// Looks for files of processes that have changed their user. Called periodically.
    mutating func look() {
        let room = Self.mostOthers - others.count
        for other in directory.ownFindings(atMost: room, except: names) { follow(other) }
    }

    /// The next entry after the program has ended, including an incomplete last line; nil at the end.
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

    // Detects that the file was truncated, which a process can do even after it dropped its privileges. Reading
    // continues at the beginning of the file.
    private mutating func noticeCut() {
        guard let size = file.status?.st_size, size < lseek(file.number, 0, SEEK_CUR) else { return }
        wasCut = true
        kept?.isIncomplete = true
        lseek(file.number, 0, SEEK_SET)
    }
}
