// Files with tokens and keys: opened once, and checked through their descriptors.

import Glibc
import ZombieGuard

/// A file that others must not read or change.
public enum PrivateFile {
    /// Opens a file. It must belong to this user or root. Its group may read it, others nothing.
    static func open(_ path: String, flags: Int32 = O_RDONLY) throws(FleetError) -> Descriptor {
        func wrong(_ reason: String, hint: String? = nil) -> FleetError {
            FleetError("cannot use '\(visible(path))': \(reason)", hint: hint)
        }
        let file: Descriptor
        // O_NONBLOCK: opening a FIFO must not wait for its writer.
        do throws(SystemError) { file = try Descriptor(opening: path, flags: flags | O_NONBLOCK, mode: 0o600) } catch {
            throw wrong("\(error)")
        }
        guard let status = file.status, status.st_mode & S_IFMT == S_IFREG else { throw wrong("it is not a file") }
        if status.st_uid != 0, status.st_uid != geteuid() { throw wrong("it belongs to another user") }
        if status.st_mode & (S_IWGRP | S_IXGRP | S_IRWXO) != 0 {
            throw wrong("others may read or change it", hint: "chmod 600 \(visible(path))")
        }
        return file
    }

    /// Reads a small file.
    ///
    /// - Parameter path: path of the file.
    /// - Returns: its contents.
    /// - Throws: ``FleetError`` if it cannot be read, or others may read or change it.
    public static func read(_ path: String) throws(FleetError) -> [UInt8] {
        let file = try open(path)
        let bytes: [UInt8]
        do throws(SystemError) { bytes = try file.read(at: 0, upTo: mostBytes + 1) } catch {
            throw FleetError("cannot read '\(visible(path))': \(error)")
        }
        if bytes.count > mostBytes { throw FleetError("'\(visible(path))' is more than \(mostBytes) bytes") }
        return bytes
    }

    private static let mostBytes = 1 << 20
}
