// Identifies a process even if the kernel reuses its ID.

/// A process ID and the start time of the process, which exec does not change.
package struct ProcessIdentity: Hashable {
    package let number: Int
    private let started: String

    /// The process that has this ID now; nil if there is none.
    package init?(_ number: Int) {
        guard let folder = try? ProcessFolder(of: number) else { return nil }
        self.init(folder)
    }

    /// The process of this folder; nil if it has ended.
    init?(_ folder: ProcessFolder) {
        guard let bytes = folder.stat, let end = bytes.lastIndex(of: UInt8(ascii: ")")) else { return nil }
        // The start time is field 22 of proc(5), counted from 1. The first field behind the name is field 3, so it has
        // index 19 here.
        let fields = bytes[end...].dropFirst(2).split(separator: UInt8(ascii: " "))
        guard fields.count > 19 else { return nil }
        number = folder.number
        started = String(decoding: fields[19], as: UTF8.self)
    }

    /// Whether the ID still refers to this process.
    package var isCurrent: Bool { Self(number) == self }
}
