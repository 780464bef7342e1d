// Loads the system's zlib when the first compressed report is read or written.

import CZlib

/// Functions of libz.so.1; nil if it is not installed.
struct Zlib: Sendable {
    typealias Stream = UnsafeMutablePointer<zg_zlib_stream>
    typealias Start = @convention(c) (Stream, CInt, UnsafePointer<CChar>, CInt) -> CInt
    typealias StartDeflating = @convention(c) (Stream, CInt, CInt, CInt, CInt, CInt, UnsafePointer<CChar>, CInt) -> CInt
    typealias Step = @convention(c) (Stream, CInt) -> CInt
    typealias Change = @convention(c) (Stream) -> CInt

    let startInflating: Start
    let inflate: Step
    let restartInflating: Change
    let endInflating: Change
    let startDeflating: StartDeflating
    let deflate: Step
    let endDeflating: Change

    static let name = "libz.so.1"
    /// Version of zlib for whose stream layout CZlib is written. zlib refuses a different major version.
    static let version = "1"
    static let streamSize = CInt(MemoryLayout<zg_zlib_stream>.size)
    static let shared = Zlib()

    private init?() {
        guard let library = LoadedLibrary(Self.name),
            let startInflating = library.function("inflateInit2_", Start.self),
            let inflate = library.function("inflate", Step.self),
            let restartInflating = library.function("inflateReset", Change.self),
            let endInflating = library.function("inflateEnd", Change.self),
            let startDeflating = library.function("deflateInit2_", StartDeflating.self),
            let deflate = library.function("deflate", Step.self),
            let endDeflating = library.function("deflateEnd", Change.self)
        else { return nil }
        (self.startInflating, self.inflate, self.restartInflating) = (startInflating, inflate, restartInflating)
        (self.endInflating, self.startDeflating, self.deflate) = (endInflating, startDeflating, deflate)
        self.endDeflating = endDeflating
    }
}
