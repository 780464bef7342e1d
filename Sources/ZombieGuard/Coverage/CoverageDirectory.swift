// The directory of `zguard run --coverage`: one file, in which the runs of a build add up.

import Glibc

/// A directory with the pairs of a build.
public struct CoverageDirectory: Sendable {
    /// Path of the directory.
    public let path: String
    private var file: String { "\(path)/pairs" }

    /// Names a directory, which need not exist.
    ///
    /// - Parameter path: its path.
    public init(_ path: String) { self.path = path }

    /// Creates the directory if there is none.
    ///
    /// - Throws: the error of the failed system call.
    public func create() throws(SystemError) {
        if mkdir(path, 0o777) != 0 && errno != EEXIST { throw .last }
        var status = stat()
        guard stat(path, &status) == 0 else { throw .last }
        if status.st_mode & S_IFMT != S_IFDIR { throw SystemError(number: ENOTDIR) }
        if access(path, W_OK) != 0 { throw .last }
    }

    /// Reads the pairs of all runs so far.
    ///
    /// - Returns: the pairs; without runs before the first run.
    /// - Throws: the error of the failed system call, EINVAL if the file has another format.
    public func read() throws(SystemError) -> PairCoverage {
        let bytes: [UInt8]
        do throws(SystemError) {
            bytes = try readFile(file)
        } catch {
            if error.number == ENOENT { return PairCoverage() }
            throw error
        }
        guard let coverage = PairCoverage(lines: bytes) else {
            throw SystemError(number: EINVAL)
        }
        return coverage
    }

    /// Adds a run. Another process that adds a run meanwhile waits.
    ///
    /// - Returns: the pairs of all runs, with this one.
    @discardableResult
    package func add(run: PairCoverage) throws(SystemError) -> PairCoverage {
        let lock = try Descriptor(opening: "\(path)/lock", flags: O_RDWR | O_CREAT | O_NOFOLLOW, mode: 0o666)
        while flock(lock.number, LOCK_EX) != 0 { if errno != EINTR { throw .last } }
        var all = try read()
        all.add(run: run)
        let temporary = "\(file).\(getpid())"
        do throws(SystemError) {
            let new = try Descriptor(opening: temporary, flags: O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, mode: 0o666)
            try new.write(all.lines)
            if rename(temporary, file) != 0 { throw .last }
        } catch {
            unlink(temporary)
            throw error
        }
        return all
    }
}
