// Compresses a file with gzip.

import CZlib
import Glibc

enum GzipWriter {
    /// Writes all that `source` holds, compressed, to `target`.
    static func compress(_ source: Descriptor, to target: Descriptor) throws(SystemError) {
        let stream = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)
        stream.initialize(to: z_stream())
        defer { stream.deallocate() }
        let started = deflateInit2_(
            stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY, ZLIB_VERSION,
            Int32(MemoryLayout<z_stream>.size))
        guard started == Z_OK else { throw SystemError(number: ENOMEM) }
        defer { deflateEnd(stream) }
        var offset: UInt64 = 0
        while true {
            var input = try source.read(at: offset, upTo: 1 << 16)
            offset += UInt64(input.count)
            try deflate(&input, stream, to: target)
            if input.isEmpty { return }
        }
    }

    /// Compresses one piece; an empty one is the end.
    private static func deflate(
        _ input: inout [UInt8], _ stream: UnsafeMutablePointer<z_stream>, to target: Descriptor
    ) throws(SystemError) {
        let flush = input.isEmpty ? Z_FINISH : Z_NO_FLUSH
        let count = input.count
        var consumed = 0
        var status = Z_OK
        repeat {
            let output = [UInt8](unsafeUninitializedCapacity: 1 << 16) { buffer, filled in
                input.withUnsafeMutableBufferPointer { bytes in
                    stream.pointee.next_in = bytes.baseAddress.map { $0 + consumed }
                    stream.pointee.avail_in = uInt(count - consumed)
                    stream.pointee.next_out = buffer.baseAddress
                    stream.pointee.avail_out = uInt(buffer.count)
                    status = CZlib.deflate(stream, flush)
                    consumed = count - Int(stream.pointee.avail_in)
                    filled = buffer.count - Int(stream.pointee.avail_out)
                }
            }
            if status == Z_STREAM_ERROR { throw SystemError(number: EINVAL) }
            try target.write(bytes: output)
        } while stream.pointee.avail_out == 0
    }
}
