// Memory that is read at the addresses of the program that it belongs to.

import CSystem

/// The memory of a program: of a running process, or as a core file holds it.
protocol MemoryReader: AnyObject {
    /// Up to `count` bytes; fewer where not all of them can be read.
    func read(at address: UInt64, upTo count: Int) -> [UInt8]
    /// The parts of a range that have memory, in the order of their addresses: what is left out was never written to. nil: not known.
    func parts(from start: UInt64, count: Int) -> [Range<UInt64>]?
}

extension MemoryReader {
    func parts(from start: UInt64, count: Int) -> [Range<UInt64>]? { nil }

    /// Records of a C type out of an array; fewer where not all of them can be read.
    func records<Record: BitwiseCopyable>(_: Record.Type, at address: UInt64, count: Int) -> [Record] {
        let size = MemoryLayout<Record>.stride
        let (wanted, overflows) = count.multipliedReportingOverflow(by: size)
        let bytes = overflows ? [] : read(at: address, upTo: wanted)
        let whole = bytes.count / size
        return [Record](unsafeUninitializedCapacity: whole) { records, filled in
            bytes.withUnsafeBytes {
                UnsafeMutableRawBufferPointer(records).copyMemory(
                    from: UnsafeRawBufferPointer(rebasing: $0[..<(whole * size)]))
            }
            filled = whole
        }
    }

    /// One record; nil where it cannot be read.
    func record<Record: BitwiseCopyable>(_ type: Record.Type, at address: UInt64) -> Record? {
        records(type, at: address, count: 1).first
    }
}

/// The memory of another process. Where to read is mostly what the process says of itself, and it may lie: what is read of it altogether is
/// bounded by what it has. Then nothing more can be read, and ``isExhausted`` says so.
final class ProcessMemory: MemoryReader {
    private let file: Descriptor
    private let pages: Descriptor?
    private let process: ProcessFolder
    private var allowance: UInt64? // nil: the memory of the process was not asked for yet
    private var spent: UInt64 = 0
    private(set) var isExhausted = false

    /// Bytes that may be read of any process; beyond, a check reads the tables and the freed blocks, each at most twice.
    private static let least: UInt64 = 64 << 20
    private static let times: UInt64 = 2
    /// What a read costs besides its bytes: a read of this many takes about as long (half a microsecond).
    private static let costOfRead: UInt64 = 1024
    private static let mostAtOnce = 16 << 20

    init(of process: ProcessFolder) throws(ProcessError) {
        self.process = process
        // The kernel asks for the rights of who opens it, not for those of who reads: root reads with its own.
        do throws(SystemError) { file = try process.open("mem") } catch {
            throw ProcessError(process.number, error, wantsMemory: true)
        }
        pages = try? process.open("pagemap")
    }

    convenience init(processID: Int) throws(ProcessError) {
        let folder: ProcessFolder
        do throws(SystemError) { folder = try ProcessFolder(of: processID) } catch {
            throw ProcessError(processID, error, wantsMemory: true)
        }
        try self.init(of: folder)
    }

    func read(at address: UInt64, upTo count: Int) -> [UInt8] {
        guard count > 0, !isExhausted, isAllowed else { return [] }
        let bytes = (try? file.read(at: address, upTo: min(count, Self.mostAtOnce))) ?? []
        spent += UInt64(bytes.count) + Self.costOfRead
        return bytes
    }

    func parts(from start: UInt64, count: Int) -> [Range<UInt64>]? {
        guard let pages, !isExhausted, isAllowed, count > 0 else { return nil }
        let pageBytes = UInt64(zg_system_page_bytes())
        let (end, overflows) = start.addingReportingOverflow(UInt64(count))
        if overflows { return [] }
        let first = start / pageBytes
        let entries = (end - 1) / pageBytes - first + 1
        let bytes = (try? pages.read(at: first &* 8, upTo: Int(entries) * 8)) ?? []
        spent += UInt64(bytes.count) + Self.costOfRead
        var parts: [Range<UInt64>] = []
        bytes.withUnsafeBytes { bytes in
            for index in 0..<bytes.count / 8 {
                // Bits 63 and 62 of proc(5): in memory, and in swap space.
                guard bytes.loadUnaligned(fromByteOffset: index * 8, as: UInt64.self) >> 62 != 0 else { continue }
                let page = (first + UInt64(index)) &* pageBytes
                let part = max(page, start)..<min(page + pageBytes, end)
                if let last = parts.last, last.upperBound == part.lowerBound {
                    parts[parts.count - 1] = last.lowerBound..<part.upperBound
                } else {
                    parts.append(part)
                }
            }
        }
        return parts
    }

    private var isAllowed: Bool {
        if spent < Self.least { return true }
        let most = allowance ?? Self.least + Self.times * process.memoryBytes
        allowance = most
        isExhausted = spent >= most
        return !isExhausted
    }
}
