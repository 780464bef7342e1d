// Replaces pages that a core file omits by the contents of the files that were mapped there.

import Glibc

/// The mapped files that a core file names. Each file is opened once, and used only if it is still the same file.
final class MappedFiles {
    /// Reasons why files could not be used, one line each, with control characters escaped.
    private(set) var notes: [String] = []

    private let mappings: [Mapping]
    private let coreTime: timespec
    private let author: Author
    /// Path of the executable that the user of zguard named; it is opened with the user's own rights.
    private let program: String?
    private var opened: [String: Descriptor?] = [:]

    init(mappings: [Mapping], coreTime: timespec, author: Author, program: String?) {
        self.author = author
        self.program = program
        self.mappings = mappings
        self.coreTime = coreTime
    }

    /// Bytes of the file mapped at this address; empty if no file was mapped there, or the file has changed.
    func read(at address: UInt64, upTo count: Int, _ core: CoreFile) -> [UInt8] {
        let behind = mappings.partitionPoint { $0.start > address }
        guard behind > 0, count > 0 else { return [] }
        let mapping = mappings[behind - 1]
        guard address < mapping.end, let file = file(of: mapping, core) else { return [] }
        let wanted = Int(min(UInt64(count), mapping.end - address))
        return (try? file.read(at: mapping.fileOffset &+ (address - mapping.start), upTo: wanted)) ?? []
    }

    private func file(of mapping: Mapping, _ core: CoreFile) -> Descriptor? {
        if let known = opened[mapping.path] { return known }
        opened[mapping.path] = .some(nil) // opening the file reads the core file: ends the recursion
        let file = open(mapping.path, core)
        opened[mapping.path] = .some(file)
        return file
    }

    private func open(_ path: String, _ core: CoreFile) -> Descriptor? {
        // Skip devices, shared memory and deleted files: their contents are not on disk.
        guard path.hasPrefix("/"), !path.hasPrefix("/dev/"), !path.hasPrefix("/memfd:"), !path.hasSuffix(" (deleted)")
        else { return nil }
        do throws(SystemError) {
            let file = try (path == program ? .own : author).openModule(path)
            guard let status = file.status, status.st_mode & S_IFMT == S_IFREG else { return nil }
            if isSame(file, status, path, core) { return file }
            notes.append(
                "'\(visible(path))' has changed since the program ran: memory that only this file could supply is missing"
            )
        } catch {
            notes.append("cannot read '\(visible(path))', which the core file relies on: \(error)")
        }
        return nil
    }

    // Compares the build ID of the file with that of the image in memory. Without a build ID, the file must be older
    // than the core file.
    private func isSame(_ file: Descriptor, _ status: stat, _ path: String, _ core: CoreFile) -> Bool {
        let start = mappings.first { $0.path == path && $0.fileOffset == 0 }?.start
        let image = start.flatMap { start in
            ProcessModules.Image(at: start, in: core)
        }
        let own = (try? ELFImage(read: file.reader)).flatMap { headers in
            // Converts addresses of the notes to file offsets.
            headers.buildID { address, count in
                guard
                    let segment = headers.segments.last(where: {
                        $0.type == ELFImage.SegmentType.load && $0.address <= address
                    })
                else { return [] }
                return file.reader(segment.offset &+ (address - segment.address), count)
            }
        }
        if let own, let before = image?.buildID { return own == before }
        return (status.st_mtim.tv_sec, status.st_mtim.tv_nsec) <= (coreTime.tv_sec, coreTime.tv_nsec)
    }
}
