// The directory of a report store: everything in it is reached through its descriptor, and no link is followed.

import Glibc

/// A report store cannot do something. The text is one line in lower case, safe to print.
public struct StoreError: Error, Hashable, Sendable, CustomStringConvertible {
    public var description: String

    init(_ what: String, _ path: String, _ cause: SystemError) {
        description = "cannot \(what) '\(visible(path))': \(cause)"
    }

    init(_ description: String) { self.description = description }
}

/// An open directory. Its path may lead through links; names in it may not be links.
struct StoreDirectory: Sendable {
    let path: String
    private let descriptor: Descriptor

    /// Opens a directory that exists.
    init(opening path: String) throws(StoreError) {
        self.path = path
        do throws(SystemError) {
            descriptor = try Descriptor(opening: path, flags: O_RDONLY | O_DIRECTORY)
        } catch {
            throw StoreError("open report directory", path, error)
        }
    }

    /// The same, with the error of the system's own.
    init(at path: String) throws(SystemError) {
        self.path = path
        descriptor = try Descriptor(opening: path, flags: O_RDONLY | O_DIRECTORY)
    }

    /// Opens a directory, and makes it where it does not exist, with those above it. What is made belongs to its owner alone.
    init(creating path: String) throws(StoreError) {
        var made = ""
        for part in path.split(separator: "/", omittingEmptySubsequences: true) {
            made += (made.isEmpty && !path.hasPrefix("/") ? "" : "/") + part
            // Whether it is there and usable shows when the whole path is opened.
            if mkdir(made, 0o700) == 0 { continue }
            let failure = SystemError.last
            if access(made, F_OK) != 0 { throw StoreError("create report directory", made, failure) }
        }
        try self.init(opening: path)
    }

    /// The names of all entries. Those that are not UTF-8 are left out: the store gives no such names.
    func names() throws(SystemError) -> [String] {
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

    /// What a name stands for; nil where that is not a regular file.
    func regularFile(_ name: String) -> stat? {
        var status = stat()
        guard fstatat(descriptor.number, name, &status, AT_SYMLINK_NOFOLLOW) == 0, status.st_mode & S_IFMT == S_IFREG
        else { return nil }
        return status
    }

    func open(_ name: String, flags: Int32 = O_RDONLY) throws(SystemError) -> Descriptor {
        // What is no regular file after all, a pipe say, shall not make anybody wait.
        try Descriptor(opening: name, in: descriptor, flags: flags | O_NOFOLLOW | O_NONBLOCK, mode: 0o600)
    }

    /// A new file of that name, open for reading and appending, and locked: as long as it is open it counts as being written.
    func create(_ name: String) throws(SystemError) -> Descriptor {
        for _ in 0..<100 {
            let file: Descriptor
            do throws(SystemError) {
                let flags = O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW
                file = try Descriptor(opening: name, in: descriptor, flags: flags, mode: 0o600)
            } catch {
                // A file that an earlier attempt left.
                if error.number == EEXIST, remove(name) { continue }
                throw error
            }
            // Where locks do not exist, nobody else can lock either: such files are never removed.
            let isTaken = flock(file.number, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK
            // Before the lock, a prune may have taken it for one that a dead writer left; it may even be stopped meanwhile.
            if !isTaken, let status = file.status, status.st_nlink > 0 { return file }
            remove(name)
        }
        throw SystemError(number: EAGAIN)
    }

    func rename(_ name: String, to other: String) throws(SystemError) {
        if renameat(descriptor.number, name, descriptor.number, other) != 0 { throw .last }
        fsync(descriptor.number) // that the new name outlasts a power failure is worth an attempt
    }

    @discardableResult
    func remove(_ name: String) -> Bool { unlinkat(descriptor.number, name, 0) == 0 }

    /// Removes a regular file that nobody is writing to; whether it is gone by this call. Between a look at a name and this,
    /// the name may have come to stand for another file, which stays.
    func removeIfUnlocked(_ name: String) -> Bool {
        guard let file = try? open(name), flock(file.number, LOCK_EX | LOCK_NB) == 0, let opened = file.status,
            let named = regularFile(name), named.st_ino == opened.st_ino, named.st_dev == opened.st_dev
        else { return false }
        return remove(name)
    }

    /// Keeps others from removing reports at the same time; nil where they do not let go within `seconds`.
    func lock(seconds: Double) throws(SystemError) -> Descriptor? {
        // A lock belongs to an open file: this directory's own descriptor may be shared with other threads.
        let own = try Descriptor(opening: ".", in: descriptor, flags: O_RDONLY | O_DIRECTORY)
        var attempts = Int(seconds * 100)
        while flock(own.number, LOCK_EX | LOCK_NB) != 0 {
            if errno == EINTR { continue }
            if errno != EWOULDBLOCK { return own } // a file system without locks
            if attempts <= 0 { return nil }
            attempts -= 1
            usleep(10_000)
        }
        return own
    }
}
