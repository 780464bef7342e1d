// Compressed contents of ELF files, through whichever libraries the system has for them.

import Glibc

/// Decompresses sections. The libraries are looked for when the first section needs one, so nothing has to be installed where
/// nothing is compressed; one that is missing costs the names that the section has, and nothing else.
enum Decompression {
    /// How a section is compressed.
    enum Method {
        /// zlib's format: ELFCOMPRESS_ZLIB, and the sections called .zdebug_… of older tools.
        case zlib
        /// Zstandard: ELFCOMPRESS_ZSTD.
        case zstandard
    }

    // int uncompress(Bytef *, uLongf *, const Bytef *, uLong), zlib.h; 0 is Z_OK.
    private typealias Uncompress =
        @convention(c) (UnsafeMutableRawPointer, UnsafeMutablePointer<UInt>, UnsafeRawPointer, UInt) -> CInt
    // size_t ZSTD_decompress(void *, size_t, const void *, size_t), zstd.h; an error is no size that was asked for.
    private typealias Zstandard = @convention(c) (UnsafeMutableRawPointer, Int, UnsafeRawPointer, Int) -> Int
    // lzma_ret lzma_stream_buffer_decode(uint64_t *memlimit, uint32_t flags, const lzma_allocator *, const uint8_t *in, size_t *in_pos,
    // size_t in_size, uint8_t *out, size_t *out_pos, size_t out_size), lzma/container.h; 0 is LZMA_OK, 10 LZMA_BUF_ERROR.
    private typealias DecodeXZ =
        @convention(c) (
            UnsafeMutablePointer<UInt64>, UInt32, UnsafeRawPointer?, UnsafeRawPointer, UnsafeMutablePointer<Int>, Int,
            UnsafeMutableRawPointer, UnsafeMutablePointer<Int>, Int
        ) -> CInt

    private static let uncompress = function("libz.so.1", "uncompress", Uncompress.self)
    private static let zstandard = function("libzstd.so.1", "ZSTD_decompress", Zstandard.self)
    private static let decodeXZ = function("liblzma.so.5", "lzma_stream_buffer_decode", DecodeXZ.self)

    // The libraries stay: a symbolicator lives as long as its process.
    private static func function<Function>(_ library: String, _ name: String, _ type: Function.Type) -> Function? {
        LoadedLibrary(library)?.function(name, type)
    }

    /// The contents of a section that says that it holds `size` bytes, at least one; the caller deallocates them. nil where they are
    /// damaged, are not as many, or cannot be read here.
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

    /// The contents of an xz file, up to `most` bytes of them; nil where it is damaged, holds more, or cannot be read here.
    static func xz(_ stored: UnsafeRawBufferPointer, most: Int) -> [UInt8]? {
        let ok: CInt = 0
        let bufferError: CInt = 10
        guard let decodeXZ, let input = stored.baseAddress else { return nil }
        // How much it holds is said nowhere that could be believed.
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
