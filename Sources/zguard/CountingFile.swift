// What guarded processes can only count: findings that they could not write, where the disk is full, and processes that could
// not say what they watched.

import Glibc
import ZombieGuard

/// A file in the directory of a run. Its size alone counts, downwards: that takes no room on a disk and is within
/// every limit. A guarded process makes it one byte shorter for each finding that it cannot write, or for itself (run_directory.c).
struct CountingFile {
    private static let most: off_t = 1 << 20

    private let file: Descriptor
    private let start: off_t

    init(_ path: String, mode: mode_t) throws(SystemError) {
        file = try Descriptor(opening: path, flags: O_RDWR | O_CREAT | O_EXCL, mode: 0o600)
        fchmod(file.number, mode)
        // A limit on the size of files (SIGXFSZ is not blocked yet) is a limit here, too.
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
