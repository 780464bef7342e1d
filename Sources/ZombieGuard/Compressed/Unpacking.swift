// Decompresses files into anonymous temporary files, with the libraries that are installed.

import Glibc

/// Compression format of a file. Each case has the name of the command-line program for the format.
package enum CompressionFormat: CaseIterable {
    case zstd
    case lz4
    case xz
    case gzip

    /// Magic number of the format.
    var magic: [UInt8] {
        switch self {
        case .zstd: [0x28, 0xb5, 0x2f, 0xfd]
        case .lz4: [0x04, 0x22, 0x4d, 0x18]
        case .xz: [0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00]
        case .gzip: GzipSource.magic
        }
    }

    /// The format of a file that begins with these bytes; nil if they have no known magic number.
    package init?(start: [UInt8]) {
        guard let packing = Self.allCases.first(where: { start.starts(with: $0.magic) }) else { return nil }
        self = packing
    }

    /// Library that decompresses the format.
    package var library: String {
        switch self {
        case .zstd: "libzstd.so.1"
        case .lz4: "liblz4.so.1"
        case .xz: "liblzma.so.5"
        case .gzip: Zlib.name
        }
    }

    private func stream() -> (any UnpackingStream)? {
        switch self {
        case .zstd: ZstandardStream()
        case .lz4: LZ4Stream()
        case .xz: XZStream()
        case .gzip: GzipStream()
        }
    }

    // MARK: Whole files

    private static let inputSize = 256 << 10
    private static let outputSize = 1 << 20
    private static let pageSize = 4096

    /// The first bytes of the decompressed contents; fewer on failure.
    package func start(of file: Descriptor, count: Int) -> [UInt8] {
        guard let input = try? file.read(at: 0, upTo: Self.inputSize), var stream = stream() else { return [] }
        var start: [UInt8] = []
        _ = unpack(input[...], &stream, into: 64 << 10) { bytes in
            start += bytes.prefix(count - start.count)
            return start.count < count
        }
        return start
    }

    /// Decompresses a file into a new anonymous file, in which pages of zeros are holes. The output ends where the
    /// compressed data is damaged or truncated.
    ///
    /// - Throws: the error of a system call; ENOSYS if the library is not installed.
    package func unpacked(_ file: Descriptor) throws(SystemError) -> Descriptor {
        guard var stream = stream() else { throw SystemError(number: ENOSYS) }
        let output = try Self.newFile()
        var (from, to): (UInt64, UInt64) = (0, 0)
        var failure: SystemError?
        while true {
            let input = try file.read(at: from, upTo: Self.inputSize)
            if input.isEmpty { break }
            from += UInt64(input.count)
            let goesOn = unpack(input[...], &stream, into: Self.outputSize) { bytes in
                do throws(SystemError) { try Self.write(bytes, to: output, at: to) } catch {
                    failure = error
                    return false
                }
                to += UInt64(bytes.count)
                return true
            }
            if let failure { throw failure }
            if !goesOn { break }
        }
        if ftruncate(output.number, off_t(to)) != 0 { throw .last }
        return output
    }

    // Passes the decompressed bytes to `take`. Returns false if the compressed data has ended or is damaged, or after
    // `take` has returned false.
    private func unpack(
        _ input: ArraySlice<UInt8>, _ stream: inout any UnpackingStream, into capacity: Int,
        _ take: (UnsafeRawBufferPointer) -> Bool
    ) -> Bool {
        let output = UnsafeMutableRawBufferPointer.allocate(byteCount: capacity, alignment: 16)
        defer { output.deallocate() }
        return input.withUnsafeBytes { bytes in
            var read = 0
            while true {
                guard let step = stream.step(UnsafeRawBufferPointer(rebasing: bytes[read...]), output) else {
                    return false
                }
                read += step.read
                if step.written > 0, !take(UnsafeRawBufferPointer(rebasing: output[..<step.written])) { return false }
                // The library may hold more output than fits: repeat without input until the buffer is not filled.
                if read == bytes.count, step.written < output.count { return true }
                if step.read == 0, step.written == 0 { return false }
            }
        }
    }

    private static func newFile() throws(SystemError) -> Descriptor {
        let directory = getenv("TMPDIR").map { String(cString: $0) } ?? "/var/tmp"
        var failure = SystemError(number: ENOENT)
        for path in [directory, "/tmp"] {
            var name = Array("\(path)/zguard-core.XXXXXX".utf8CString)
            let number = mkstemp(&name)
            if number >= 0 {
                unlink(name)
                _ = fcntl(number, F_SETFD, FD_CLOEXEC)
                return Descriptor(adopting: number)
            }
            failure = .last
        }
        throw failure
    }

    // Skips pages of zeros, which become holes: core files have many of them.
    private static func write(_ bytes: UnsafeRawBufferPointer, to file: Descriptor, at offset: UInt64)
        throws(SystemError)
    {
        var start = 0
        while start < bytes.count {
            var end = min(start + pageSize, bytes.count)
            if isZero(bytes, start..<end) {
                start = end
                continue
            }
            while end < bytes.count, !isZero(bytes, end..<min(end + pageSize, bytes.count)) {
                end = min(end + pageSize, bytes.count)
            }
            while start < end {
                let written = pwrite(
                    file.number, bytes.baseAddress! + start, end - start, off_t(offset) + off_t(start))
                if written < 0, errno == EINTR { continue }
                if written <= 0 { throw .last }
                start += written
            }
        }
    }

    private static func isZero(_ bytes: UnsafeRawBufferPointer, _ range: Range<Int>) -> Bool {
        let first = bytes.baseAddress! + range.lowerBound
        return bytes[range.lowerBound] == 0 && memcmp(first, first + 1, range.count - 1) == 0
    }
}
