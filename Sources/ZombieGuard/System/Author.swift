// The author of a report, and opening the files that the report names with no more rights than its author has.

import CSystem
import Glibc

/// The user who wrote a report, or a finding in it. A report may name any file, so a file is shown only where the report's
/// author could read it.
public enum Author: Hashable, Sendable {
    /// The user of this process, or root.
    case own
    /// Another user.
    case user(UInt32)
    /// A pipe, a database, or a file that several users may write to.
    case unknown

    /// The author of what a file holds: its owner, where nobody else may write to it.
    ///
    /// - Parameter file: open for reading.
    package init(of file: Descriptor) {
        guard let status = file.status, status.st_mode & S_IFMT == S_IFREG else {
            self = .unknown
            return
        }
        // A group of this user's or root's own is nobody else, as where the umask is 002.
        let isOfGroup = status.st_mode & S_IWGRP != 0 && status.st_gid != 0 && status.st_gid != getegid()
        let isShared = status.st_mode & S_IWOTH != 0 || isOfGroup
        self = isShared ? .unknown : Author(user: status.st_uid)
    }

    /// The author of what a user's process says.
    ///
    /// - Parameter user: the user's number, from the kernel.
    package init(user: UInt32) { self = user == 0 || user == geteuid() ? .own : .user(user) }

    /// The author of a line that says itself who wrote it, in a report of this author. Only this user's own reports are believed.
    ///
    /// - Parameter claimed: what the line says; ``own``: nothing.
    /// - Returns: who has no more rights than either.
    package func limited(by claimed: Author) -> Author {
        switch (self, claimed) {
        case (.own, _): claimed
        case (_, .unknown): .unknown
        default: self
        }
    }

    /// As it stands in a finished report; nil for this user's own findings.
    var text: String? {
        switch self {
        case .own: nil
        case .user(let number): "\(number)"
        case .unknown: "unknown"
        }
    }

    /// Reads ``text``. What is no number is nobody that is known.
    init(text: String?) {
        guard let text else {
            self = .own
            return
        }
        self = UInt32(digits: text).map { Author(user: $0) } ?? .unknown
    }

    /// Opens a file of a module that the author has named, for reading: this user's own paths as they are, through links as
    /// well, others as ``open(_:)`` does.
    ///
    /// - Parameter path: of a file.
    /// - Returns: the file, which may be anything but a FIFO that is waited for.
    /// - Throws: ``SystemError`` where it cannot be opened, or the author could not read it.
    package func openModule(_ path: String) throws(SystemError) -> Descriptor {
        self == .own ? try Descriptor(opening: path, flags: O_RDONLY | O_NONBLOCK) : try open(path).file
    }

    /// Opens a regular file that the author has named, for reading, and says what it is called without links.
    ///
    /// - Parameter path: of a file; links in it are resolved, and not followed again.
    /// - Returns: the file, and its absolute path.
    /// - Throws: ``SystemError`` where it cannot be opened, or the author could not read it.
    package func open(_ path: String) throws(SystemError) -> (file: Descriptor, path: String) {
        let (rights, user) =
            switch self {
            case .own: (ZG_SYSTEM_OWN, UInt32(0))
            case .user(let number): (ZG_SYSTEM_OF_USER, number)
            case .unknown: (ZG_SYSTEM_OF_EVERYBODY, UInt32(0))
            }
        var resolved = [CChar](repeating: 0, count: Int(PATH_MAX))
        let number = zg_system_open_named(path, rights, user, &resolved)
        if number < 0 { throw SystemError(number: -number) }
        let name = resolved.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
        return (Descriptor(adopting: number), String(decoding: name, as: UTF8.self))
    }
}

/// A value that does not make what has it different: equal to every other one.
@propertyWrapper
package struct NotCompared<Value: Sendable>: Hashable, Sendable {
    package var wrappedValue: Value

    package init(wrappedValue: Value) { self.wrappedValue = wrappedValue }

    package static func == (a: NotCompared, b: NotCompared) -> Bool { true }
    package func hash(into hasher: inout Hasher) {}
}
