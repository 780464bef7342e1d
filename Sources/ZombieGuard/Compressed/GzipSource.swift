// Reads what a gzip file holds, in bounded memory.

import CZlib
import Glibc

/// The decompressed bytes of a file. What is damaged or cut off ends them early, as does too much of them; `problem` says so.
final class GzipSource: ByteSource {
    /// How a gzip file begins.
    static let magic: [UInt8] = [0x1f, 0x8b]
    /// A small file may stand for very many bytes: reading ends after so many.
    static let mostBytes: UInt64 = 1 << 30

    private let file: Descriptor
    private let mostBytes: UInt64
    // zlib keeps the address of its own state.
    private let stream: Zlib.Stream
    private let zlib = Zlib.shared
    private let hasState: Bool
    private var input: [UInt8] = []
    private var position = 0
    private var total: UInt64 = 0
    private var isBetweenMembers = false
    private var isAtEnd = false
    private(set) var problem: String?

    init(file: Descriptor, mostBytes: UInt64 = GzipSource.mostBytes) {
        self.file = file
        self.mostBytes = mostBytes
        stream = .allocate(capacity: 1)
        stream.initialize(to: zg_zlib_stream())
        let status = zlib?.startInflating(stream, ZG_ZLIB_GZIP_WINDOW, Zlib.version, Zlib.streamSize)
        hasState = status == ZG_ZLIB_OK
        if zlib == nil {
            end("it is compressed, and \(Zlib.name) is not installed")
        } else if !hasState {
            end("there is no memory for reading it")
        }
    }

    deinit {
        if hasState { _ = zlib?.endInflating(stream) }
        stream.deallocate()
    }

    func read(upTo count: Int) throws(SystemError) -> [UInt8] {
        while !isAtEnd {
            if position == input.count {
                input = try file.read(upTo: 1 << 16)
                position = 0
                if input.isEmpty {
                    // A file ends well behind the last of its members.
                    if isBetweenMembers { isAtEnd = true } else { end("its compressed data is cut off") }
                    return []
                }
            }
            let output = inflate(upTo: Int(min(UInt64(count), mostBytes - total + 1)))
            if !output.isEmpty { return output }
        }
        return []
    }

    /// The next bytes that the input at hand yields; none where it yields nothing yet.
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

/// The bytes that an open file holds, decompressed where they are gzip, whatever the file is called.
func byteSource(of file: Descriptor) -> any ByteSource {
    // A pipe cannot be read ahead, and is taken as it is.
    let start = (try? file.read(at: 0, upTo: GzipSource.magic.count)) ?? []
    return start == GzipSource.magic ? GzipSource(file: file) : file
}

extension FindingReader {
    /// Opens a file; directories are refused.
    ///
    /// - Parameter path: of a report, which may be compressed with gzip.
    /// - Throws: ``SystemError`` where it cannot be opened, or is a directory.
    public init(opening path: String) throws(SystemError) {
        let file = try Descriptor(opening: path)
        if file.isDirectory { throw SystemError(number: EISDIR) }
        self.init(file: file)
    }

    /// The file may be compressed with gzip.
    ///
    /// - Parameter file: a report, read from its beginning.
    public init(file: Descriptor) { self.init(source: byteSource(of: file), author: Author(of: file)) }
}
