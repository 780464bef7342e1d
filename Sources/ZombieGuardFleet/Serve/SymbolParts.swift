// Assembles symbol files that `zguard symbols upload --to https://…` sends in parts.

import CSystem
import Glibc
import ZombieGuard

/// Incomplete uploads. Each is in an unlinked file, which is lost when the server ends. Used by one thread.
struct SymbolParts {
    /// Identifies an upload.
    struct Key: Hashable {
        var user: String, tenant: String, upload: String
    }

    private struct Upload {
        var file: Descriptor
        var size: Int64
        /// Number of bytes received, without gaps, from the start of the file.
        var there: Int64 = 0
        /// Times of the first and of the last part, in milliseconds of ``MonotonicTime``.
        var begun: UInt64, used: UInt64
    }

    private var uploads: [Key: Upload] = [:]

    private static let mostUploads = 16, mostOfUser = 4
    /// An upload is dropped if no part arrives for `idle` milliseconds, or `longest` milliseconds after its first part.
    private static let idle: UInt64 = 60_000, longest: UInt64 = 3_600_000
    /// Limit of the bytes received for all incomplete uploads.
    private static let mostBytes: Int64 = 8 << 30

    /// The result of adding a part.
    enum Result {
        /// Number of bytes received.
        case more(Int64)
        /// The whole file.
        case whole(Descriptor)
        /// Bytes before this part are missing, or the part is longer than the rest of the file: the sender must start
        /// again.
        case unknown
        case busy
    }

    /// Adds a part. A part that was received already may be sent again.
    ///
    /// - Parameters:
    ///   - bytes: the part.
    ///   - offset: its place in the file.
    ///   - size: size of the whole file in bytes.
    ///   - key: identifies the upload.
    /// - Throws: ``SystemError`` if the part cannot be written.
    mutating func add(_ bytes: [UInt8], at offset: Int64, of size: Int64, _ key: Key) throws -> Result {
        let now = MonotonicTime.milliseconds
        forget(now)
        if uploads[key] == nil || uploads[key]?.size != size {
            uploads[key] = nil
            if offset != 0 { return .unknown }
            let own = uploads.keys.count { $0.user == key.user && $0.tenant == key.tenant }
            if uploads.count >= Self.mostUploads || own >= Self.mostOfUser { return .busy }
            uploads[key] = Upload(file: try UnnamedFile.make(), size: size, begun: now, used: now)
        }
        guard var upload = uploads[key], offset <= upload.there else { return .unknown }
        guard Int64(bytes.count) <= size - offset else { return .unknown }
        if uploads.values.reduce(Int64(bytes.count), { $0 + $1.there }) > Self.mostBytes { return .busy }
        var done = 0
        while done < bytes.count {
            let count = bytes[done...].withUnsafeBytes {
                pwrite(upload.file.number, $0.baseAddress, $0.count, off_t(offset + Int64(done)))
            }
            if count < 0, errno == EINTR { continue }
            if count <= 0 { throw SystemError.last }
            done += count
        }
        upload.there = max(upload.there, offset + Int64(bytes.count))
        upload.used = now
        uploads[key] = upload
        if upload.there < size { return .more(upload.there) }
        uploads[key] = nil
        return .whole(upload.file)
    }

    private mutating func forget(_ now: UInt64) {
        uploads = uploads.filter { now - $0.value.used < Self.idle && now - $0.value.begun < Self.longest }
    }
}
