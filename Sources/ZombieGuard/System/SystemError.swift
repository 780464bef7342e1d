// Wraps errno values and file descriptors.

import Glibc

/// An errno value.
public struct SystemError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The value of errno.
    public var number: Int32

    /// Creates an error from its number.
    ///
    /// - Parameter number: a value of errno.
    public init(number: Int32) { self.number = number }

    /// The current value of `errno` in this thread.
    public static var last: SystemError { SystemError(number: errno) }

    /// The message of `strerror`, such as "No such file or directory".
    public var description: String {
        guard let text = strerror(number) else { return "error \(number)" }
        return String(cString: text)
    }
}

/// A file descriptor, closed when its last reference is gone.
public final class Descriptor: Sendable {
    /// The descriptor's number.
    public let number: Int32

    /// Takes ownership of an open descriptor.
    ///
    /// - Parameter number: an open descriptor, which is closed with this object.
    public init(adopting number: Int32) { self.number = number }

    /// Opens a file with O_CLOEXEC. The descriptor is never 0, 1 or 2, not even if a standard stream is closed:
    /// messages would be written into the file. A relative path starts at `directory` if one is given.
    ///
    /// - Parameters:
    ///   - path: path of the file.
    ///   - directory: directory for relative paths; nil for the working directory.
    ///   - flags: as for open(2).
    ///   - mode: permissions of a new file.
    /// - Throws: ``SystemError`` if the file cannot be opened.
    public init(opening path: String, in directory: Descriptor? = nil, flags: Int32 = O_RDONLY, mode: mode_t = 0)
        throws(SystemError)
    {
        var opened = openat(directory?.number ?? AT_FDCWD, path, flags | O_CLOEXEC, mode)
        if (0...STDERR_FILENO).contains(opened) {
            let low = opened
            opened = fcntl(low, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)
            let failure = SystemError.last
            close(low)
            if opened < 0 { throw failure }
        }
        if opened < 0 { throw .last }
        number = opened
    }

    deinit { close(number) }

    /// Whether this is a directory. Opening a directory succeeds; only reading it fails.
    public var isDirectory: Bool { status.map { $0.st_mode & S_IFMT == S_IFDIR } ?? false }

    /// The result of `fstat`; nil on error.
    public var status: stat? {
        var status = stat()
        return fstat(number, &status) == 0 ? status : nil
    }

    /// Reads up to `count` bytes at the current position; fewer or none at the end.
    ///
    /// - Parameter count: bytes.
    /// - Returns: the bytes read.
    /// - Throws: ``SystemError`` if the descriptor cannot be read.
    public func read(upTo count: Int) throws(SystemError) -> [UInt8] {
        var failure: SystemError?
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
            while true {
                let result = Glibc.read(number, buffer.baseAddress, count)
                if result >= 0 {
                    filled = result
                    return
                }
                if errno == EINTR { continue }
                failure = .last
                return
            }
        }
        if let failure { throw failure }
        return bytes
    }

    /// Reads up to `count` bytes at `offset`; fewer or none at the end or in front of an unreadable part.
    ///
    /// - Parameters:
    ///   - offset: bytes from the file's beginning.
    ///   - count: bytes.
    /// - Returns: the bytes read.
    /// - Throws: ``SystemError`` if nothing can be read.
    public func read(at offset: UInt64, upTo count: Int) throws(SystemError) -> [UInt8] {
        var failure: SystemError?
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
            while filled < count {
                let position = off_t(truncatingIfNeeded: offset &+ UInt64(filled))
                let result = pread(number, buffer.baseAddress! + filled, count - filled, position)
                if result > 0 {
                    filled += result
                } else if result < 0, errno == EINTR {
                    continue
                } else {
                    if result < 0, filled == 0 { failure = .last }
                    return
                }
            }
        }
        if let failure { throw failure }
        return bytes
    }

    /// Reads bytes at `offset` into a buffer. Returns the number of bytes read; 0 also on error.
    package func read(at offset: UInt64, into buffer: UnsafeMutableRawBufferPointer) -> Int {
        guard let start = buffer.baseAddress else { return 0 }
        var filled = 0
        while filled < buffer.count {
            let position = off_t(truncatingIfNeeded: offset &+ UInt64(filled))
            let result = pread(number, start + filled, buffer.count - filled, position)
            if result > 0 {
                filled += result
            } else if result == 0 || errno != EINTR {
                break
            }
        }
        return filled
    }

    /// Reads from the current position to the end. For small files, such as those in /proc.
    package func readWhole() throws(SystemError) -> [UInt8] {
        var contents: [UInt8] = []
        while true {
            let part = try read(upTo: 1 << 16)
            if part.isEmpty { return contents }
            contents += part
        }
    }

    /// Writes a text.
    ///
    /// - Parameter text: a text, written as UTF-8.
    /// - Throws: ``SystemError`` if the text cannot be written.
    public func write(_ text: String) throws(SystemError) { try write(bytes: Array(text.utf8)) }

    /// Writes bytes, in one call unless it is interrupted.
    ///
    /// - Parameter bytes: the bytes to write.
    /// - Throws: ``SystemError`` if the bytes cannot be written.
    public func write(bytes: [UInt8]) throws(SystemError) {
        var failure: SystemError?
        bytes.withUnsafeBytes { bytes in
            var written = 0
            while written < bytes.count {
                let result = Glibc.write(number, bytes.baseAddress! + written, bytes.count - written)
                if result >= 0 {
                    written += result
                } else if errno != EINTR {
                    failure = .last
                    return
                }
            }
        }
        if let failure { throw failure }
    }
}

/// The target of a symbolic link, with invalid UTF-8 replaced; nil if it cannot be read.
package func readLink(_ path: String) -> String? {
    var buffer = [UInt8](repeating: 0, count: Int(PATH_MAX))
    let count = buffer.withUnsafeMutableBytes { readlink(path, $0.baseAddress!, $0.count) }
    return count < 0 ? nil : String(decoding: buffer[..<count], as: UTF8.self)
}

/// The names in a directory, including "." and ".."; empty if it cannot be read.
package func directoryEntries(_ path: String) -> [String] {
    guard let directory = opendir(path) else { return [] }
    return entries(of: directory)
}

private func entries(of directory: OpaquePointer) -> [String] {
    defer { closedir(directory) }
    var names: [String] = []
    while let entry = readdir(directory) {
        names.append(
            withUnsafeBytes(of: &entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) })
    }
    return names
}

/// The names in an open directory. The position of its descriptor does not change.
package func directoryEntries(of open: Descriptor) -> [String] {
    let again = openat(open.number, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard again >= 0 else { return [] }
    guard let directory = fdopendir(again) else {
        close(again)
        return []
    }
    return entries(of: directory)
}

/// Reads a whole small file, such as one in /proc.
package func readFile(_ path: String) throws(SystemError) -> [UInt8] {
    try Descriptor(opening: path).readWhole()
}
