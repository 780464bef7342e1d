// Decompresses sections of ELF files, with the decompression libraries that are installed.

import Glibc

/// Decompresses sections. The libraries are opened when the first section needs them, so uncompressed files need no
/// library. If a library is missing, only the names in that section are lost.
enum Decompression {
    /// How a section is compressed.
    enum Method {
        /// zlib's format: ELFCOMPRESS_ZLIB, and the sections called .zdebug_… of older tools.
        case zlib
        /// Zstandard: ELFCOMPRESS_ZSTD.
        case zstandard
    }

    // int uncompress(Bytef *, uLongf *, const Bytef *, uLong), zlib.h; returns 0 (Z_OK) on success.
    private typealias Uncompress =
        @convention(c) (UnsafeMutableRawPointer, UnsafeMutablePointer<UInt>, UnsafeRawPointer, UInt) -> CInt
    // size_t ZSTD_decompress(void *, size_t, const void *, size_t), zstd.h; on error returns a value other than the
    // expected size.
    private typealias Zstandard = @convention(c) (UnsafeMutableRawPointer, Int, UnsafeRawPointer, Int) -> Int
    // lzma_ret lzma_stream_buffer_decode(uint64_t *memlimit, uint32_t flags, const lzma_allocator *, const uint8_t *in,
    // size_t *in_pos, size_t in_size, uint8_t *out, size_t *out_pos, size_t out_size), lzma/container.h; returns 0
    // (LZMA_OK), 10 (LZMA_BUF_ERROR: `out` is too small), or another error.
    private typealias DecodeXZ =
        @convention(c) (
            UnsafeMutablePointer<UInt64>, UInt32, UnsafeRawPointer?, UnsafeRawPointer, UnsafeMutablePointer<Int>, Int,
            UnsafeMutableRawPointer, UnsafeMutablePointer<Int>, Int
        ) -> CInt

    private static let uncompress = function("libz.so.1", "uncompress", Uncompress.self)
    private static let zstandard = function("libzstd.so.1", "ZSTD_decompress", Zstandard.self)
    private static let decodeXZ = function("liblzma.so.5", "lzma_stream_buffer_decode", DecodeXZ.self)

    // The libraries are never closed: a symbolicator lives as long as its process.
    private static func function<Function>(_ library: String, _ name: String, _ type: Function.Type) -> Function? {
        LoadedLibrary(library)?.function(name, type)
    }

    /// Decompresses a section to exactly `size` bytes (at least one); the caller deallocates them. nil if the data is
    /// damaged, has another size, or the library is missing.
    static func bytes(_ method: Method, of stored: UnsafeRawBufferPointer, size: Int) -> UnsafeMutableRawBufferPointer?
    {
        guard size > 0, let input = stored.baseAddress else { return nil }
        let output = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 16)
        let start = output.baseAddress!
        let isWhole: Bool
        switch method {
        case .zlib:
            var count = UInt(size)
            isWhole = uncompress?(start, &count, input, UInt(stored.count)) == 0 && count == UInt(size)
        case .zstandard:
            isWhole = zstandard?(start, size, input, stored.count) == size
        }
        if isWhole { return output }
        output.deallocate()
        return nil
    }

    /// Decompresses an xz file to at most `most` bytes; nil if it is damaged or needs more, or liblzma is missing.
    static func xz(_ stored: UnsafeRawBufferPointer, most: Int) -> [UInt8]? {
        let ok: CInt = 0
        let bufferError: CInt = 10
        guard let decodeXZ, let input = stored.baseAddress else { return nil }
        // No trustworthy field has the decompressed size: start small and retry with a larger buffer.
        var capacity = min(most, max(stored.count * 4, 1 << 16))
        while true {
            var memory = UInt64(most) * 4
            var (read, written) = (0, 0)
            var status = bufferError
            let bytes = [UInt8](unsafeUninitializedCapacity: capacity) { output, count in
                status = decodeXZ(&memory, 0, nil, input, &read, stored.count, output.baseAddress!, &written, capacity)
                count = written
            }
            if status == ok { return bytes }
            guard status == bufferError, capacity < most else { return nil }
            capacity = min(most, capacity * 4)
        }
    }
}
