// The directory of `zguard run --coverage`: one file, which accumulates the pairs of all runs of a build.

import Glibc

/// A directory with the allocation and free pairs of a build.
public struct CoverageDirectory: Sendable {
    /// Path of the directory.
    public let path: String
    private static let file = "pairs", temporary = ".pairs.tmp"
    /// Longest wait while another process adds a run.
    private static let secondsToWait = 60.0

    /// Names a directory, which need not exist.
    ///
    /// - Parameter path: its path.
    public init(_ path: String) { self.path = path }

    /// Creates the directory if there is none. Checks that it is a directory that this process may write.
    ///
    /// - Throws: the error of the failed system call, ENOTDIR if the path is not a directory.
    public func create() throws(SystemError) {
        if mkdir(path, 0o777) != 0 && errno != EEXIST { throw .last }
        var status = stat()
        guard stat(path, &status) == 0 else { throw .last }
        if status.st_mode & S_IFMT != S_IFDIR { throw SystemError(number: ENOTDIR) }
        if access(path, W_OK) != 0 { throw .last }
    }

    /// Reads the pairs of all runs so far.
    ///
    /// - Returns: the pairs; empty before the first run.
    /// - Throws: the error of the failed system call, EINVAL if the file has another format.
    public func read() throws(SystemError) -> PairCoverage {
        let directory: StoreDirectory
        do throws(SystemError) {
            directory = try StoreDirectory(at: path)
        } catch {
            if error.number == ENOENT { return PairCoverage() }
            throw error
        }
        return try Self.read(directory)
    }

    private static func read(_ directory: StoreDirectory) throws(SystemError) -> PairCoverage {
        let file: Descriptor
        do throws(SystemError) {
            file = try directory.open(Self.file)
        } catch {
            if error.number == ENOENT { return PairCoverage() }
            throw error
        }
        guard let coverage = PairCoverage(lines: try file.readWhole()) else { throw SystemError(number: EINVAL) }
        return coverage
    }

    /// Adds a run. Waits while another process adds one.
    ///
    /// - Returns: the pairs of all runs, with this one.
    @discardableResult
    package func add(run: PairCoverage) throws(SystemError) -> PairCoverage {
        let directory = try StoreDirectory(at: path)
        guard let lock = try directory.lock(seconds: Self.secondsToWait) else { throw SystemError(number: ETIMEDOUT) }
        defer { withExtendedLifetime(lock) {} }
        var all = try Self.read(directory)
        all.add(run: run)
        do throws(SystemError) {
            try directory.create(Self.temporary).write(all.lines)
            try directory.rename(Self.temporary, to: Self.file)
        } catch {
            directory.remove(Self.temporary)
            throw error
        }
        return all
    }
}
