// The directory of a report store. Accesses its files relative to a descriptor, and never follows links.

import Glibc

/// An operation on a report store failed. The description is one line in lower case, safe to print.
public struct StoreError: Error, Hashable, Sendable, CustomStringConvertible {
    public var description: String

    init(_ what: String, _ path: String, _ cause: SystemError) {
        description = "cannot \(what) '\(visible(path))': \(cause)"
    }

    init(_ description: String) { self.description = description }
}

/// An open directory. Its path may contain symbolic links; its entries must not be links.
package struct StoreDirectory: Sendable {
    package let path: String
    private let descriptor: Descriptor

    /// Opens an existing directory.
    package init(opening path: String) throws(StoreError) {
        self.path = path
        do throws(SystemError) {
            descriptor = try Descriptor(opening: path, flags: O_RDONLY | O_DIRECTORY)
        } catch {
            throw StoreError("open report directory", path, error)
        }
    }

    /// Opens an existing directory. Unlike `init(opening:)`, throws the error of the system.
    init(at path: String) throws(SystemError) {
        self.path = path
        descriptor = try Descriptor(opening: path, flags: O_RDONLY | O_DIRECTORY)
    }

    /// Opens a directory in this one; nil if there is none.
    ///
    /// - Parameters:
    ///   - name: name of the directory, which must not be a link.
    ///   - create: whether to create a missing directory, with the mode and, as root, the owner of this directory.
    package func directory(_ name: String, create: Bool = false) throws(SystemError) -> StoreDirectory? {
        let isNew = create && mkdirat(descriptor.number, name, 0o700) == 0
        if create, !isNew, errno != EEXIST { throw .last }
        let opened: Descriptor
        do throws(SystemError) {
            opened = try Descriptor(
                opening: name, in: descriptor, flags: O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
        } catch {
            if error.number == ENOENT, !create { return nil }
            throw error
        }
        if isNew, let own = descriptor.status {
            if geteuid() == 0 { _ = fchown(opened.number, own.st_uid, own.st_gid) }
            _ = fchmod(opened.number, own.st_mode & 0o777)
        }
        return StoreDirectory(path: "\(path)/\(name)", descriptor: opened)
    }

    private init(path: String, descriptor: Descriptor) {
        self.path = path
        self.descriptor = descriptor
    }

    /// Opens a directory. Creates it and its missing parents, with mode 0700.
    package init(creating path: String) throws(StoreError) {
        var made = ""
        for part in path.split(separator: "/", omittingEmptySubsequences: true) {
            made += (made.isEmpty && !path.hasPrefix("/") ? "" : "/") + part
            // Existing components are checked when the whole path is opened.
            if mkdir(made, 0o700) == 0 { continue }
            let failure = SystemError.last
            if access(made, F_OK) != 0 { throw StoreError("create report directory", made, failure) }
        }
        try self.init(opening: path)
    }

    /// The names of all entries. Leaves out names that are not UTF-8: the store makes none.
    package func names() throws(SystemError) -> [String] {
        let copy = openat(descriptor.number, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0)
        guard copy >= 0 else { throw .last }
        guard let stream = fdopendir(copy) else {
            let failure = SystemError.last
            close(copy)
            throw failure
        }
        defer { closedir(stream) }
        var names: [String] = []
        while true {
            errno = 0
            guard let entry = readdir(stream) else {
                if errno != 0 { throw .last }
                return names
            }
            let name = withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
                String(validating: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            if let name { names.append(name) }
        }
    }

    /// The status of a regular file; nil for anything else, including symbolic links.
    package func regularFile(_ name: String) -> stat? {
        var status = stat()
        guard fstatat(descriptor.number, name, &status, AT_SYMLINK_NOFOLLOW) == 0, status.st_mode & S_IFMT == S_IFREG
        else { return nil }
        return status
    }

    package func open(_ name: String, flags: Int32 = O_RDONLY) throws(SystemError) -> Descriptor {
        // O_NONBLOCK: opening a FIFO must not block.
        try Descriptor(opening: name, in: descriptor, flags: flags | O_NOFOLLOW | O_NONBLOCK, mode: 0o600)
    }

    /// Gives a new file the permissions of the directory and, as root, its owner: root may have created the file in
    /// another user's store.
    package func share(_ file: Descriptor) {
        guard let own = descriptor.status else { return }
        if geteuid() == 0 { _ = fchown(file.number, own.st_uid, own.st_gid) }
        _ = fchmod(file.number, own.st_mode & 0o666)
    }

    /// Syncs the directory, so that new names survive a power failure.
    package func save() throws(SystemError) { if fsync(descriptor.number) != 0 { throw .last } }

    /// Creates a file, open for reading and appending, and locks it. The lock marks the file as being written.
    package func create(_ name: String) throws(SystemError) -> Descriptor {
        for _ in 0..<100 {
            let file: Descriptor
            do throws(SystemError) {
                let flags = O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW
                file = try Descriptor(opening: name, in: descriptor, flags: flags, mode: 0o600)
            } catch {
                // Replace a file left by an earlier attempt.
                if error.number == EEXIST, remove(name) { continue }
                throw error
            }
            // On file systems without locks, no other process can lock the file either, so it is never removed.
            let isTaken = flock(file.number, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK
            // Before this process took the lock, a prune may have locked or removed the file as that of a dead writer.
            // Retry.
            if !isTaken, let status = file.status, status.st_nlink > 0 { return file }
            remove(name)
        }
        throw SystemError(number: EAGAIN)
    }

    package func rename(_ name: String, to other: String) throws(SystemError) {
        if renameat(descriptor.number, name, descriptor.number, other) != 0 { throw .last }
        // Best effort: makes the new name survive a power failure.
        fsync(descriptor.number)
    }

    @discardableResult
    package func remove(_ name: String) -> Bool { unlinkat(descriptor.number, name, 0) == 0 }

    /// Removes a regular file that nobody is writing. Returns whether this call removed it. Verifies that the name
    /// still refers to the locked file (TOCTOU).
    package func removeIfUnlocked(_ name: String) -> Bool {
        guard let file = try? open(name), flock(file.number, LOCK_EX | LOCK_NB) == 0, let opened = file.status,
            let named = regularFile(name), named.st_ino == opened.st_ino, named.st_dev == opened.st_dev
        else { return false }
        return remove(name)
    }

    /// Locks the directory, which one process at a time may prune or change; nil if another process holds the lock for
    /// longer than `seconds`.
    package func lock(seconds: Double) throws(SystemError) -> Descriptor? {
        // flock(2) locks belong to the open file description, and all threads share that of `descriptor`. So open
        // another description.
        let own = try Descriptor(opening: ".", in: descriptor, flags: O_RDONLY | O_DIRECTORY)
        var attempts = Int(seconds * 100)
        while flock(own.number, LOCK_EX | LOCK_NB) != 0 {
            if errno == EINTR { continue }
            // The file system has no locks: continue without one.
            if errno != EWOULDBLOCK { return own }
            if attempts <= 0 { return nil }
            attempts -= 1
            usleep(10_000)
        }
        return own
    }
}
