// Where a reader of lines gets its bytes from: a file as it is, or what a compressed file holds.

/// Bytes, one piece after the other.
protocol ByteSource {
    /// Up to `count` bytes; none at the end of what is there now.
    func read(upTo count: Int) throws(SystemError) -> [UInt8]
    /// Why the bytes end before they should; nil as long as nothing is wrong.
    var problem: String? { get }
}

extension Descriptor: ByteSource {
    var problem: String? { nil }
}

/// The bytes that an open file holds, decompressed where they are gzip, whatever the file is called.
func byteSource(of file: Descriptor) -> any ByteSource {
    // A pipe cannot be read ahead, and is taken as it is.
    let start = (try? file.read(at: 0, upTo: GzipSource.magic.count)) ?? []
    return start == GzipSource.magic ? GzipSource(file: file) : file
}
