// Memory that is read at the addresses of the program that it belongs to.

/// The memory of a program: of a running process, or as a core file holds it.
protocol MemoryReader: AnyObject {
    /// Up to `count` bytes; fewer where not all of them can be read.
    func read(at address: UInt64, upTo count: Int) -> [UInt8]
}

extension MemoryReader {
    /// Records of a C type out of an array; fewer where not all of them can be read.
    func records<Record: BitwiseCopyable>(_: Record.Type, at address: UInt64, count: Int) -> [Record] {
        let size = MemoryLayout<Record>.stride
        let bytes = read(at: address, upTo: count * size)
        return bytes.withUnsafeBytes { buffer in
            (0..<(buffer.count / size)).map { buffer.loadUnaligned(fromByteOffset: $0 * size, as: Record.self) }
        }
    }

    /// One record; nil where it cannot be read.
    func record<Record: BitwiseCopyable>(_ type: Record.Type, at address: UInt64) -> Record? {
        records(type, at: address, count: 1).first
    }
}

/// The memory of another process.
final class ProcessMemory: MemoryReader {
    private let file: Descriptor

    init(processID: Int) throws(ProcessError) {
        do throws(SystemError) {
            file = try Descriptor(opening: ProcessFolder.ofMemory(of: processID) + "/mem")
        } catch {
            throw ProcessError(processID, error, wantsMemory: true)
        }
    }

    func read(at address: UInt64, upTo count: Int) -> [UInt8] {
        count <= 0 ? [] : (try? file.read(at: address, upTo: count)) ?? []
    }
}
