// Streaming interfaces of decompression libraries, which are loaded on first use.

import CZlib
import Glibc

/// Decompression state for one file.
protocol UnpackingStream {
    /// Decompresses as much as fits. Returns the numbers of bytes read and written; nil if the data is damaged or
    /// ended.
    mutating func step(_ input: UnsafeRawBufferPointer, _ output: UnsafeMutableRawBufferPointer) -> (
        read: Int, written: Int
    )?
}

/// Decompresses zstd with libzstd.
final class ZstandardStream: UnpackingStream {
    // Layouts of ZSTD_inBuffer and ZSTD_outBuffer in zstd.h.
    private struct Input {
        var bytes: UnsafeRawPointer?
        var size: Int
        var position: Int
    }
    private struct Output {
        var bytes: UnsafeMutableRawPointer?
        var size: Int
        var position: Int
    }
    private typealias Make = @convention(c) () -> OpaquePointer?
    private typealias Free = @convention(c) (OpaquePointer?) -> Int
    private typealias Step = @convention(c) (OpaquePointer?, UnsafeMutableRawPointer, UnsafeMutableRawPointer) -> Int
    private typealias IsError = @convention(c) (Int) -> CUnsignedInt

    private let state: OpaquePointer
    private let free: Free
    private let step: Step
    private let isError: IsError

    init?() {
        guard let library = LoadedLibrary(CompressionFormat.zstd.library),
            let make = library.function("ZSTD_createDStream", Make.self),
            let free = library.function("ZSTD_freeDStream", Free.self),
            let step = library.function("ZSTD_decompressStream", Step.self),
            let isError = library.function("ZSTD_isError", IsError.self), let state = make()
        else { return nil }
        (self.state, self.free, self.step, self.isError) = (state, free, step, isError)
    }

    deinit { _ = free(state) }

    func step(_ input: UnsafeRawBufferPointer, _ output: UnsafeMutableRawBufferPointer) -> (read: Int, written: Int)? {
        var from = Input(bytes: input.baseAddress, size: input.count, position: 0)
        var to = Output(bytes: output.baseAddress, size: output.count, position: 0)
        let result = withUnsafeMutableBytes(of: &to) { to in
            withUnsafeMutableBytes(of: &from) { step(state, to.baseAddress!, $0.baseAddress!) }
        }
        return isError(result) != 0 ? nil : (from.position, to.position)
    }
}

/// Decompresses LZ4 frames with liblz4.
final class LZ4Stream: UnpackingStream {
    private typealias Make = @convention(c) (UnsafeMutablePointer<OpaquePointer?>, CUnsignedInt) -> Int
    private typealias Free = @convention(c) (OpaquePointer?) -> Int
    private typealias Step =
        @convention(c) (
            OpaquePointer?, UnsafeMutableRawPointer?, UnsafeMutablePointer<Int>, UnsafeRawPointer?,
            UnsafeMutablePointer<Int>, UnsafeRawPointer?
        ) -> Int
    private typealias IsError = @convention(c) (Int) -> CUnsignedInt

    private static let version: CUnsignedInt = 100 // LZ4F_VERSION, lz4frame.h
    private let state: OpaquePointer
    private let free: Free
    private let step: Step
    private let isError: IsError

    init?() {
        var state: OpaquePointer?
        guard let library = LoadedLibrary(CompressionFormat.lz4.library),
            let make = library.function("LZ4F_createDecompressionContext", Make.self),
            let free = library.function("LZ4F_freeDecompressionContext", Free.self),
            let step = library.function("LZ4F_decompress", Step.self),
            let isError = library.function("LZ4F_isError", IsError.self), isError(make(&state, Self.version)) == 0,
            let state
        else { return nil }
        (self.state, self.free, self.step, self.isError) = (state, free, step, isError)
    }

    deinit { _ = free(state) }

    func step(_ input: UnsafeRawBufferPointer, _ output: UnsafeMutableRawBufferPointer) -> (read: Int, written: Int)? {
        var (read, written) = (input.count, output.count)
        let result = step(state, output.baseAddress, &written, input.baseAddress, &read, nil)
        return isError(result) != 0 ? nil : (read, written)
    }
}

/// Decompresses xz with liblzma.
final class XZStream: UnpackingStream {
    // Layout of lzma_stream in lzma/base.h: input, output, then private fields.
    private struct Stream {
        var input: UnsafeRawPointer?
        var inputCount = 0
        var totalInput: UInt64 = 0
        var output: UnsafeMutableRawPointer?
        var outputCount = 0
        var totalOutput: UInt64 = 0
        var own: (UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64) =
            (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    }
    private typealias Start = @convention(c) (UnsafeMutableRawPointer, UInt64, UInt32) -> CInt
    private typealias Step = @convention(c) (UnsafeMutableRawPointer, CInt) -> CInt
    private typealias End = @convention(c) (UnsafeMutableRawPointer) -> Void

    private static let concatenated: UInt32 = 8, mostMemory: UInt64 = 256 << 20
    // The library stores the address of the stream.
    private let stream = UnsafeMutablePointer<Stream>.allocate(capacity: 1)
    private let step: Step
    private let end: End

    init?() {
        stream.initialize(to: Stream())
        guard let library = LoadedLibrary(CompressionFormat.xz.library),
            let start = library.function("lzma_stream_decoder", Start.self),
            let step = library.function("lzma_code", Step.self), let end = library.function("lzma_end", End.self),
            start(stream, Self.mostMemory, Self.concatenated) == 0
        else {
            stream.deallocate()
            return nil
        }
        (self.step, self.end) = (step, end)
    }

    deinit {
        end(stream)
        stream.deallocate()
    }

    func step(_ input: UnsafeRawBufferPointer, _ output: UnsafeMutableRawBufferPointer) -> (read: Int, written: Int)? {
        let run: CInt = 0
        let noProgress: CInt = 10 // LZMA_RUN, LZMA_BUF_ERROR
        (stream.pointee.input, stream.pointee.inputCount) = (input.baseAddress, input.count)
        (stream.pointee.output, stream.pointee.outputCount) = (output.baseAddress, output.count)
        let status = step(stream, run)
        guard status == 0 || status == noProgress else { return nil }
        return (input.count - stream.pointee.inputCount, output.count - stream.pointee.outputCount)
    }
}

/// Decompresses gzip files of a single member with zlib.
final class GzipStream: UnpackingStream {
    private let stream = Zlib.Stream.allocate(capacity: 1) // zlib stores the stream's address
    private let zlib: Zlib

    init?() {
        stream.initialize(to: zg_zlib_stream())
        guard let zlib = Zlib.shared,
            zlib.startInflating(stream, ZG_ZLIB_GZIP_WINDOW, Zlib.version, Zlib.streamSize) == ZG_ZLIB_OK
        else {
            stream.deallocate()
            return nil
        }
        self.zlib = zlib
    }

    deinit {
        _ = zlib.endInflating(stream)
        stream.deallocate()
    }

    func step(_ input: UnsafeRawBufferPointer, _ output: UnsafeMutableRawBufferPointer) -> (read: Int, written: Int)? {
        stream.pointee.next_in = input.baseAddress?.assumingMemoryBound(to: UInt8.self)
        stream.pointee.avail_in = CUnsignedInt(input.count)
        stream.pointee.next_out = output.baseAddress?.assumingMemoryBound(to: UInt8.self)
        stream.pointee.avail_out = CUnsignedInt(output.count)
        let status = zlib.inflate(stream, ZG_ZLIB_NO_FLUSH)
        let isGood = [ZG_ZLIB_OK, ZG_ZLIB_BUFFER_ERROR, ZG_ZLIB_STREAM_END].contains(status)
        let written = output.count - Int(stream.pointee.avail_out)
        return isGood || written > 0 ? (input.count - Int(stream.pointee.avail_in), written) : nil
    }
}
