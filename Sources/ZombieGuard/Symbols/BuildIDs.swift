// Finds files by build-id in directories whose file names do not contain the build-id.

import Glibc
import Synchronization

/// The build-ids of the files in directories that the user has named. A directory is read again only if it has changed.
enum BuildIDs {
    private struct Directory {
        /// Modification time of the directory, in nanoseconds.
        var changed: Int64
        /// Paths by build-id.
        var files: [String: [String]] = [:]
    }

    private static let known = Mutex<[String: Directory]>([:])
    /// Maximum number of files per directory whose build-ids are read.
    private static let mostFiles = 4096

    /// The files in a directory, without its subdirectories, that have this build-id, sorted by name.
    static func files(in directory: String, _ buildID: String) -> [String] {
        var status = stat()
        guard stat(directory, &status) == 0 else { return [] }
        let changed = Int64(status.st_mtim.tv_sec) &* 1_000_000_000 &+ Int64(status.st_mtim.tv_nsec)
        if let entry = known.withLock({ $0[directory] }), entry.changed == changed { return entry.files[buildID] ?? [] }
        var entry = Directory(changed: changed)
        for name in directoryEntries(directory).sorted().prefix(mostFiles) {
            let path = "\(directory)/\(name)"
            if let id = (try? ELFFile(path: path))?.buildID { entry.files[id, default: []].append(path) }
        }
        let found = entry
        known.withLock { $0[directory] = found }
        return found.files[buildID] ?? []
    }
}
