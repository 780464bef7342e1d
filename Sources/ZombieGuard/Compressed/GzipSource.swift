// Decompresses gzip files as a stream, in bounded memory.

import CZlib
import Glibc

/// The decompressed bytes of a gzip file. Damaged data, truncated data, or more than `mostBytes` bytes end the stream
/// early; `problem` tells the reason.
package final class GzipSource: ByteSource {
    /// Magic number of gzip files.
    static let magic: [UInt8] = [0x1f, 0x8b]
    /// Limit of decompressed bytes, because a small file may expand to very many bytes.
    package static let mostBytes: UInt64 = 1 << 30

    private let file: Descriptor
    private let mostBytes: UInt64
    // On the heap: zlib's state points back to the stream, so its address must not change.
    private let stream: Zlib.Stream
    private let zlib = Zlib.shared
    private let hasState: Bool
    private var input: [UInt8] = []
    private var position = 0
    private var total: UInt64 = 0
    private var isBetweenMembers = false
    private var isAtEnd = false
    package private(set) var problem: String?

    package init(file: Descriptor, mostBytes: UInt64 = GzipSource.mostBytes) {
        self.file = file
        self.mostBytes = mostBytes
        stream = .allocate(capacity: 1)
        stream.initialize(to: zg_zlib_stream())
        let status = zlib?.startInflating(stream, ZG_ZLIB_GZIP_WINDOW, Zlib.version, Zlib.streamSize)
        hasState = status == ZG_ZLIB_OK
        if zlib == nil {
            end("it is compressed, and \(Zlib.name) is not installed")
        } else if !hasState {
            end("out of memory")
        }
    }

    deinit {
        if hasState { _ = zlib?.endInflating(stream) }
        stream.deallocate()
    }

    package func read(upTo count: Int) throws(SystemError) -> [UInt8] {
        while !isAtEnd {
            if position == input.count {
                input = try file.read(upTo: 1 << 16)
                position = 0
                if input.isEmpty {
                    // The end of the file is valid only behind a complete gzip member.
                    if isBetweenMembers { isAtEnd = true } else { end("its compressed data is cut off") }
                    return []
                }
            }
            let output = inflate(upTo: Int(min(UInt64(count), mostBytes - total + 1)))
            if !output.isEmpty { return output }
        }
        return []
    }

    /// Decompresses more of the buffered input; empty if that yields no output yet.
    private func inflate(upTo count: Int) -> [UInt8] {
        if isBetweenMembers {
            isBetweenMembers = false
            _ = zlib?.restartInflating(stream)
        }
        var status = ZG_ZLIB_OK
        var output = [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
            input.withUnsafeBufferPointer { bytes in
                stream.pointee.next_in = bytes.baseAddress! + position
                stream.pointee.avail_in = CUnsignedInt(bytes.count - position)
                stream.pointee.next_out = buffer.baseAddress
                stream.pointee.avail_out = CUnsignedInt(count)
                status = zlib?.inflate(stream, ZG_ZLIB_NO_FLUSH) ?? ZG_ZLIB_STREAM_ERROR
                position = bytes.count - Int(stream.pointee.avail_in)
                filled = count - Int(stream.pointee.avail_out)
            }
        }
        switch status {
        case ZG_ZLIB_OK, ZG_ZLIB_BUFFER_ERROR: break
        case ZG_ZLIB_STREAM_END: isBetweenMembers = true
        default: end("its compressed data is damaged")
        }
        total += UInt64(output.count)
        if total > mostBytes {
            output.removeLast(Int(total - mostBytes))
            end("it holds more than \(mostBytes) bytes, and no more are read")
        }
        return output
    }

    private func end(_ reason: String) {
        isAtEnd = true
        problem = reason
    }
}

/// The contents of an open file, decompressed if the file begins with gzip's magic number.
func byteSource(of file: Descriptor, mostBytes: UInt64 = GzipSource.mostBytes) -> any ByteSource {
    // Reading at an offset fails on pipes: their contents are assumed to be uncompressed.
    let start = (try? file.read(at: 0, upTo: GzipSource.magic.count)) ?? []
    return start == GzipSource.magic ? GzipSource(file: file, mostBytes: mostBytes) : file
}

extension FindingReader {
    /// Opens a report.
    ///
    /// - Parameter path: path of a report, possibly compressed with gzip.
    /// - Throws: ``SystemError`` if the file cannot be opened or is a directory.
    public init(opening path: String) throws(SystemError) {
        let file = try Descriptor(opening: path)
        if file.isDirectory { throw SystemError(number: EISDIR) }
        self.init(file: file)
    }

    /// Reads an open report.
    ///
    /// - Parameter file: a report, possibly compressed with gzip; its position must be at the beginning.
    public init(file: Descriptor) { self.init(source: byteSource(of: file), author: Author(of: file)) }

    /// Reads lines that were received from elsewhere: their author is unknown.
    ///
    /// - Parameters:
    ///   - file: the lines, possibly compressed with gzip; its position must be at the beginning.
    ///   - mostBytes: limit of the decompressed bytes.
    package init(file: Descriptor, mostBytes: UInt64) {
        self.init(source: byteSource(of: file, mostBytes: mostBytes))
    }
}
