// Where a reader of lines gets its bytes from: a file as it is, or what a compressed file holds.

/// Bytes, one piece after the other.
package protocol ByteSource {
    /// Up to `count` bytes; none at the end of what is there now.
    func read(upTo count: Int) throws(SystemError) -> [UInt8]
    /// Why the bytes end before they should; nil as long as nothing is wrong.
    var problem: String? { get }
}

extension Descriptor: ByteSource {
    package var problem: String? { nil }
}
