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
    private let stream: UnsafeMutablePointer<z_stream>
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
        stream.initialize(to: z_stream())
        let windowBits = MAX_WBITS + 16 // a gzip header and trailer around it
        hasState = inflateInit2_(stream, windowBits, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size)) == Z_OK
        if !hasState { end("there is no memory for reading it") }
    }

    deinit {
        if hasState { inflateEnd(stream) }
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
            inflateReset(stream)
        }
        var status = Z_OK
        var output = [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
            input.withUnsafeMutableBufferPointer { bytes in
                stream.pointee.next_in = bytes.baseAddress! + position
                stream.pointee.avail_in = uInt(bytes.count - position)
                stream.pointee.next_out = buffer.baseAddress
                stream.pointee.avail_out = uInt(count)
                status = CZlib.inflate(stream, Z_NO_FLUSH)
                position = bytes.count - Int(stream.pointee.avail_in)
                filled = count - Int(stream.pointee.avail_out)
            }
        }
        switch status {
        case Z_OK, Z_BUF_ERROR: break
        case Z_STREAM_END: isBetweenMembers = true
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
