// Compresses files with gzip.

import CZlib
import Glibc

package enum GzipWriter {
    /// Writes the contents of `source` to `target`, compressed.
    static func compress(_ source: Descriptor, to target: Descriptor) throws(SystemError) {
        var offset: UInt64 = 0
        try compress {
            () throws(SystemError) in
            let input = try source.read(at: offset, upTo: 1 << 16)
            offset += UInt64(input.count)
            return input
        } to: { (output) throws(SystemError) in
            try target.write(bytes: output)
        }
    }

    /// The bytes in gzip format; nil on failure.
    package static func compressed(_ bytes: [UInt8]) -> [UInt8]? {
        var packed: [UInt8] = []
        var rest = bytes[...]
        do throws(SystemError) {
            try compress {
                () throws(SystemError) in
                defer { rest = rest.dropFirst(1 << 16) }
                return Array(rest.prefix(1 << 16))
            } to: { (output) throws(SystemError) in
                packed += output
            }
            return packed
        } catch {
            return nil
        }
    }

    /// Compresses the chunks that `next` returns, until it returns an empty chunk.
    package static func compress(
        _ next: () throws(SystemError) -> [UInt8], to put: ([UInt8]) throws(SystemError) -> Void
    ) throws(SystemError) {
        guard let zlib = Zlib.shared else { throw SystemError(number: ENOSYS) }
        let stream = Zlib.Stream.allocate(capacity: 1)
        stream.initialize(to: zg_zlib_stream())
        defer { stream.deallocate() }
        let started = zlib.startDeflating(
            stream, ZG_ZLIB_DEFAULT_LEVEL, ZG_ZLIB_DEFLATED, ZG_ZLIB_GZIP_WINDOW, ZG_ZLIB_DEFAULT_MEMORY,
            ZG_ZLIB_DEFAULT_STRATEGY, Zlib.version, Zlib.streamSize)
        guard started == ZG_ZLIB_OK else { throw SystemError(number: ENOMEM) }
        defer { _ = zlib.endDeflating(stream) }
        while true {
            let input = try next()
            try deflate(input, stream, zlib, to: put)
            if input.isEmpty { return }
        }
    }

    /// Compresses one chunk; an empty chunk finishes the stream.
    private static func deflate(
        _ input: [UInt8], _ stream: Zlib.Stream, _ zlib: Zlib, to put: ([UInt8]) throws(SystemError) -> Void
    ) throws(SystemError) {
        let flush = input.isEmpty ? ZG_ZLIB_FINISH : ZG_ZLIB_NO_FLUSH
        let count = input.count
        var consumed = 0
        var status = ZG_ZLIB_OK
        repeat {
            let output = [UInt8](unsafeUninitializedCapacity: 1 << 16) { buffer, filled in
                input.withUnsafeBufferPointer { bytes in
                    stream.pointee.next_in = bytes.baseAddress.map { $0 + consumed }
                    stream.pointee.avail_in = CUnsignedInt(count - consumed)
                    stream.pointee.next_out = buffer.baseAddress
                    stream.pointee.avail_out = CUnsignedInt(buffer.count)
                    status = zlib.deflate(stream, flush)
                    consumed = count - Int(stream.pointee.avail_in)
                    filled = buffer.count - Int(stream.pointee.avail_out)
                }
            }
            if status == ZG_ZLIB_STREAM_ERROR { throw SystemError(number: EINVAL) }
            try put(output)
        } while stream.pointee.avail_out == 0
    }
}
