// The source of bytes for a line reader: a plain file, or the contents of a compressed one.

/// A sequential source of bytes.
package protocol ByteSource {
    /// Reads up to `count` bytes; empty at the current end. A file may grow later.
    func read(upTo count: Int) throws(SystemError) -> [UInt8]
    /// Why the bytes end early; nil if there is no error.
    var problem: String? { get }
}

extension Descriptor: ByteSource {
    package var problem: String? { nil }
}
