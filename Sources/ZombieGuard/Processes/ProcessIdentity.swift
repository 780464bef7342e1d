// Which process a number stands for: once that has ended, the kernel gives its number to another one.

/// A process by its number and the moment at which it was made, which executing a program does not change.
package struct ProcessIdentity: Hashable {
    package let number: Int
    private let started: String

    /// The process that has the number now; nil where there is none.
    package init?(_ number: Int) {
        guard let folder = try? ProcessFolder(of: number) else { return nil }
        self.init(folder)
    }

    /// The process of this folder; nil where it is gone.
    init?(_ folder: ProcessFolder) {
        guard let bytes = folder.stat, let end = bytes.lastIndex(of: UInt8(ascii: ")")) else { return nil }
        // Field 22 of proc(5), counted from 1; the one behind the name is the third.
        let fields = bytes[end...].dropFirst(2).split(separator: UInt8(ascii: " "))
        guard fields.count > 19 else { return nil }
        number = folder.number
        started = String(decoding: fields[19], as: UTF8.self)
    }

    /// The number still stands for it.
    var isCurrent: Bool { Self(number) == self }
}
