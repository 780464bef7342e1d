// Files that were mapped when a core file was written, in place of what it left out.

import Glibc

/// The files that a core file names. Each is opened once, and used only where it is what was mapped then.
final class MappedFiles {
    /// Why files could not be used; one line each, safe to print.
    private(set) var notes: [String] = []

    private let mappings: [Mapping]
    private let coreTime: timespec
    private let author: Author
    /// What this user has named himself.
    private let program: String?
    private var opened: [String: Descriptor?] = [:]

    init(mappings: [Mapping], coreTime: timespec, author: Author, program: String?) {
        self.author = author
        self.program = program
        self.mappings = mappings
        self.coreTime = coreTime
    }

    /// Bytes of the file that was mapped at this address; none where there was none, or it is another file now.
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
        opened[mapping.path] = .some(nil) // what is read meanwhile comes from the core file alone
        let file = open(mapping.path, core)
        opened[mapping.path] = .some(file)
        return file
    }

    private func open(_ path: String, _ core: CoreFile) -> Descriptor? {
        // Devices, shared memory and deleted files have nothing to read there.
        guard path.hasPrefix("/"), !path.hasPrefix("/dev/"), !path.hasPrefix("/memfd:"), !path.hasSuffix(" (deleted)")
        else { return nil }
        do throws(SystemError) {
            let file = try (path == program ? .own : author).openModule(path)
            guard let status = file.status, status.st_mode & S_IFMT == S_IFREG else { return nil }
            if isSame(file, status, path, core) { return file }
            notes.append("'\(visible(path))' is another file than the one that ran: what only it holds is not shown")
        } catch {
            notes.append("cannot read '\(visible(path))', which the core file relies on: \(error)")
        }
        return nil
    }

    // Its build-id is that of the image in memory. Where one has none the file must at least be older than the core file.
    private func isSame(_ file: Descriptor, _ status: stat, _ path: String, _ core: CoreFile) -> Bool {
        let start = mappings.first { $0.path == path && $0.fileOffset == 0 }?.start
        let image = start.flatMap { start in
            ProcessModules.Image(at: start, in: core)
        }
        let own = (try? ELFImage(read: file.reader)).flatMap { headers in
            // What the notes' addresses are in the file.
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
