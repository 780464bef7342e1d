// Determines the author of a report, and opens files that the report names with only the rights of that author.

import CSystem
import Glibc

/// The user who wrote a report, or a finding in it. A report may name any file, so a file's contents are shown only if
/// the report's author could read it.
public enum Author: Hashable, Sendable {
    /// The user of this process, or root.
    case own
    /// Another user, by user id.
    case user(UInt32)
    /// Not known: the report is a pipe, a database, or a file that several users may write.
    case unknown

    /// The author of a file's contents: its owner, if no other user may write the file.
    ///
    /// - Parameter file: a file open for reading.
    package init(of file: Descriptor) {
        guard let status = file.status, status.st_mode & S_IFMT == S_IFREG else {
            self = .unknown
            return
        }
        // Write permission for this user's or root's own group is harmless. With a umask of 002, new files have this
        // permission.
        let isOfGroup = status.st_mode & S_IWGRP != 0 && status.st_gid != 0 && status.st_gid != getegid()
        let isShared = status.st_mode & S_IWOTH != 0 || isOfGroup
        self = isShared ? .unknown : Author(user: status.st_uid)
    }

    /// The author of data that a process of `user` wrote.
    ///
    /// - Parameter user: the user id, as the kernel reports it.
    package init(user: UInt32) { self = user == 0 || user == geteuid() ? .own : .user(user) }

    /// The author of a line that names its author, in a report of this author. In this user's own report, the claim is
    /// believed. In any other report, the line's author is the report's, or ``unknown`` if that is the claim.
    ///
    /// - Parameter claimed: the author that the line names; ``own`` if it names none.
    /// - Returns: an author with no more rights than this author.
    package func limited(by claimed: Author) -> Author {
        switch (self, claimed) {
        case (.own, _): claimed
        case (_, .unknown): .unknown
        default: self
        }
    }

    /// The author as written in a finished report; nil for this user's own findings.
    var text: String? {
        switch self {
        case .own: nil
        case .user(let number): "\(number)"
        case .unknown: "unknown"
        }
    }

    /// Parses ``text``. Anything but a number is `unknown`.
    init(text: String?) {
        guard let text else {
            self = .own
            return
        }
        self = UInt32(digits: text).map { Author(user: $0) } ?? .unknown
    }

    /// Opens, for reading, the file of a module that the author's report names. For ``own``, opens the path directly,
    /// following symbolic links; for all other authors, opens the path like ``open(_:)``.
    ///
    /// - Parameter path: path of a file.
    /// - Returns: the file, of any type. Opening a FIFO does not block.
    /// - Throws: ``SystemError`` if the file cannot be opened, or the author could not read it.
    package func openModule(_ path: String) throws(SystemError) -> Descriptor {
        self == .own ? try Descriptor(opening: path, flags: O_RDONLY | O_NONBLOCK) : try open(path).file
    }

    /// Opens, for reading, a regular file that the author's report names, and resolves its path.
    ///
    /// - Parameter path: path of a file. Symbolic links are resolved once; the resolved path is opened without
    ///   following links.
    /// - Returns: the file, and its absolute path without links.
    /// - Throws: ``SystemError`` if the file cannot be opened, or the author could not read it.
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

/// A property that is ignored when its owner is compared or hashed.
@propertyWrapper
package struct NotCompared<Value: Sendable>: Hashable, Sendable {
    package var wrappedValue: Value

    package init(wrappedValue: Value) { self.wrappedValue = wrappedValue }

    package static func == (a: NotCompared, b: NotCompared) -> Bool { true }
    package func hash(into hasher: inout Hasher) {}
}
