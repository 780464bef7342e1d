// Reads a program's memory by address.

import CSystem

/// The memory of a program: a running process, or a core file.
package protocol MemoryReader: AnyObject {
    /// Reads up to `count` bytes; fewer if some are unreadable.
    func read(at address: UInt64, upTo count: Int) -> [UInt8]
    /// Reads into a buffer without allocating. Returns the number of bytes read; fewer if some are unreadable.
    func read(at address: UInt64, into buffer: UnsafeMutableRawBufferPointer) -> Int
    /// The populated parts of a range, sorted by address. All other pages were never touched. nil if unknown.
    func parts(from start: UInt64, count: Int) -> [Range<UInt64>]?
}

extension MemoryReader {
    package func parts(from start: UInt64, count: Int) -> [Range<UInt64>]? { nil }

    package func read(at address: UInt64, into buffer: UnsafeMutableRawBufferPointer) -> Int {
        let bytes = read(at: address, upTo: buffer.count)
        buffer.copyBytes(from: bytes.prefix(buffer.count))
        return min(bytes.count, buffer.count)
    }

    /// Reads an array of C structs; returns fewer if some are unreadable.
    package func records<Record: BitwiseCopyable>(_: Record.Type, at address: UInt64, count: Int) -> [Record] {
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

    /// Reads one C struct; nil if unreadable.
    package func record<Record: BitwiseCopyable>(_ type: Record.Type, at address: UInt64) -> Record? {
        records(type, at: address, count: 1).first
    }
}

/// The memory of another process. Most addresses to read come from the process itself and may be wrong or malicious, so
/// a budget proportional to the process's memory bounds all reads. Once ``isExhausted``, reads return nothing.
package final class ProcessMemory: MemoryReader {
    private let file: Descriptor
    private let pages: Descriptor?
    private let process: ProcessFolder
    private var allowance: UInt64? // nil: not computed yet
    private var spent: UInt64 = 0
    package private(set) var isExhausted = false

    /// Read budget: 64 MiB plus twice the memory of the process. A check reads tables and freed blocks at most twice
    /// each.
    private static let least: UInt64 = 64 << 20
    private static let times: UInt64 = 2
    /// Cost of a read call, in bytes: reading this many bytes takes about as long as a call (half a microsecond).
    private static let costOfRead: UInt64 = 1024
    private static let mostAtOnce = 16 << 20

    package init(of process: ProcessFolder) throws(ProcessError) {
        self.process = process
        // The kernel checks access to /proc/PID/mem at open, with the rights of the opening process.
        do throws(SystemError) { file = try process.open("mem") } catch {
            throw ProcessError(process.number, error, wantsMemory: true)
        }
        pages = try? process.open("pagemap")
    }

    package convenience init(processID: Int) throws(ProcessError) {
        let folder: ProcessFolder
        do throws(SystemError) { folder = try ProcessFolder(of: processID) } catch {
            throw ProcessError(processID, error, wantsMemory: true)
        }
        try self.init(of: folder)
    }

    package func read(at address: UInt64, upTo count: Int) -> [UInt8] {
        guard count > 0, !isExhausted, isAllowed else { return [] }
        let bytes = (try? file.read(at: address, upTo: min(count, Self.mostAtOnce))) ?? []
        spent += UInt64(bytes.count) + Self.costOfRead
        return bytes
    }

    package func read(at address: UInt64, into buffer: UnsafeMutableRawBufferPointer) -> Int {
        guard !buffer.isEmpty, !isExhausted, isAllowed else { return 0 }
        let count = file.read(at: address, into: buffer)
        spent += UInt64(count) + Self.costOfRead
        return count
    }

    package func parts(from start: UInt64, count: Int) -> [Range<UInt64>]? {
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
                // Bits 63 and 62 of an entry, see proc(5): page present, page in swap.
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
