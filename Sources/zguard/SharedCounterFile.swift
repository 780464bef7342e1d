// Files in which guarded processes count findings that they could not write (full disk) and processes whose coverage is
// unknown.

import Glibc
import ZombieGuard

/// A counter in the form of a sparse file in the directory of a run: a guarded process truncates the file by one byte
/// per event (run_directory.c). Truncating needs no disk space and exceeds no limit.
struct SharedCounterFile {
    private static let most: off_t = 1 << 20

    private let file: Descriptor
    private let start: off_t

    init(_ path: String, mode: mode_t) throws(SystemError) {
        file = try Descriptor(opening: path, flags: O_RDWR | O_CREAT | O_EXCL, mode: 0o600)
        fchmod(file.number, mode)
        // Respects RLIMIT_FSIZE, because SIGXFSZ is not blocked yet.
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit)
        start = off_t(min(UInt64(Self.most), UInt64(limit.rlim_cur)))
        if ftruncate(file.number, start) != 0 { throw .last }
    }

    var count: Int {
        var status = stat()
        return fstat(file.number, &status) == 0 ? Int(max(0, start - status.st_size)) : 0
    }
}
