// An error of the operating system, and descriptors that close themselves.

import Glibc

/// An error number of the operating system.
public struct SystemError: Error, Hashable, Sendable, CustomStringConvertible {
    /// As in errno.
    public var number: Int32

    /// Makes an error of its number.
    ///
    /// - Parameter number: as in errno.
    public init(number: Int32) { self.number = number }

    /// The error that the last call in this thread left in `errno`.
    public static var last: SystemError { SystemError(number: errno) }

    /// The operating system's words, such as "No such file or directory".
    public var description: String {
        guard let text = strerror(number) else { return "error \(number)" }
        return String(cString: text)
    }
}

/// A descriptor of this process, closed with the last reference to it.
public final class Descriptor: Sendable {
    /// As in errno.
    public let number: Int32

    /// Takes over a descriptor that is open.
    ///
    /// - Parameter number: an open descriptor, which is closed with this.
    public init(adopting number: Int32) { self.number = number }

    /// Opens a file; the descriptor is not inherited by other programs, and never a standard stream's number, not even
    /// where that stream is closed: messages would end up in the file. A relative path begins at `directory` where one is given.
    ///
    /// - Parameters:
    ///   - path: of a file.
    ///   - directory: what relative paths begin at; nil: the working directory.
    ///   - flags: as for open(2).
    ///   - mode: permissions of a new file.
    /// - Throws: ``SystemError`` where it cannot be opened.
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

    /// Directories can be opened like files, and fail only when they are read.
    public var isDirectory: Bool { status.map { $0.st_mode & S_IFMT == S_IFDIR } ?? false }

    /// What `fstat` says.
    public var status: stat? {
        var status = stat()
        return fstat(number, &status) == 0 ? status : nil
    }

    /// Reads up to `count` bytes at the current position; fewer, or none, at the end.
    ///
    /// - Parameter count: bytes.
    /// - Returns: what there was.
    /// - Throws: ``SystemError`` where it cannot be read.
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

    /// Reads up to `count` bytes at `offset` of the file; fewer, or none, at the end or before an unreadable place.
    ///
    /// - Parameters:
    ///   - offset: bytes from the file's beginning.
    ///   - count: bytes.
    /// - Returns: what there was.
    /// - Throws: ``SystemError`` where nothing can be read.
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

    /// What follows the current position, of a small file such as those in /proc.
    package func readWhole() throws(SystemError) -> [UInt8] {
        var contents: [UInt8] = []
        while true {
            let part = try read(upTo: 1 << 16)
            if part.isEmpty { return contents }
            contents += part
        }
    }

    /// Writes all of the text.
    ///
    /// - Parameter text: written as UTF-8.
    /// - Throws: ``SystemError`` where it cannot be written.
    public func write(_ text: String) throws(SystemError) { try write(bytes: Array(text.utf8)) }

    /// Writes all of the bytes, in one call where nothing interrupts it.
    ///
    /// - Parameter bytes: what to write.
    /// - Throws: ``SystemError`` where they cannot be written.
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

/// The target of a symbolic link, as bytes that need not be UTF-8; nil where there is none.
package func readLink(_ path: String) -> String? {
    var buffer = [UInt8](repeating: 0, count: Int(PATH_MAX))
    let count = buffer.withUnsafeMutableBytes { readlink(path, $0.baseAddress!, $0.count) }
    return count < 0 ? nil : String(decoding: buffer[..<count], as: UTF8.self)
}

/// The names in a directory, "." and ".." among them; none where it cannot be read.
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

/// The same of a directory that is open; its position stays.
package func directoryEntries(of open: Descriptor) -> [String] {
    let again = openat(open.number, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard again >= 0 else { return [] }
    guard let directory = fdopendir(again) else {
        close(again)
        return []
    }
    return entries(of: directory)
}

/// The whole of a small file, such as one in /proc.
package func readFile(_ path: String) throws(SystemError) -> [UInt8] {
    try Descriptor(opening: path).readWhole()
}
