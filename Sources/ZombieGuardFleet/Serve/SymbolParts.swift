// Puts symbol files together that `zguard symbols upload --to https://…` sends in parts.

import CSystem
import Glibc
import ZombieGuard

/// Files of which parts have arrived. Each is a file without a name, and gone with the server. For one thread.
struct SymbolParts {
    /// Which upload a part is of.
    struct Key: Hashable {
        var user: String, tenant: String, upload: String
    }

    private struct Upload {
        var file: Descriptor
        var size: Int64
        /// Bytes that are there, from the first on.
        var there: Int64 = 0
        /// Times of the first and of the last part, in milliseconds of ``MonotonicTime``.
        var begun: UInt64, used: UInt64
    }

    private var uploads: [Key: Upload] = [:]

    private static let mostUploads = 16, mostOfUser = 4
    /// Milliseconds without a part, and since the first part, after which an upload is forgotten.
    private static let idle: UInt64 = 60_000, longest: UInt64 = 3_600_000
    /// Bytes of all uploads that are there.
    private static let mostBytes: Int64 = 8 << 30

    /// What came of a part.
    enum Result {
        /// Bytes that are there.
        case more(Int64)
        /// The whole file.
        case whole(Descriptor)
        /// The upload does not have the bytes in front of this part: it begins again.
        case unknown
        case busy
    }

    /// Adds a part. One that is there already may come again.
    ///
    /// - Parameters:
    ///   - bytes: the part.
    ///   - offset: its place in the file.
    ///   - size: size of the whole file in bytes.
    ///   - key: which file.
    /// - Throws: ``SystemError`` if it cannot be written.
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
