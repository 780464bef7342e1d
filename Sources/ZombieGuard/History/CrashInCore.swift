// What a core file says of the end of its program: signal, threads, and what was at the address of the fault.

import CUnwind
import CZombie
import Glibc

/// A program's end as its core file has it.
public struct CrashInCore {
    private let core: CoreFile
    private let signal: CoreNotes.Signal

    private static let names: [Int32: String] = [
        SIGSEGV: "SIGSEGV", SIGBUS: "SIGBUS", SIGABRT: "SIGABRT", SIGILL: "SIGILL", SIGTRAP: "SIGTRAP",
        SIGFPE: "SIGFPE",
        SIGSYS: "SIGSYS", SIGXCPU: "SIGXCPU", SIGXFSZ: "SIGXFSZ", SIGQUIT: "SIGQUIT",
    ]

    /// Takes a core file that was written because of a signal; nil where it says of none.
    ///
    /// - Parameter core: an open core file.
    public init?(_ core: CoreFile) {
        guard let signal = core.signal, !core.threads.isEmpty else { return nil }
        self.core = core
        self.signal = signal
    }

    /// The finding of the program's end, without names: what the guarded heap had at the address of the fault, where the program was guarded
    /// and the heap explains it; otherwise of kind ``Finding/Kind/crash``.
    ///
    /// - Returns: a raw finding, and what could not be read.
    public func finding() -> (finding: Finding, notes: [String]) {
        var notes: [String] = []
        if let obstacle = StackUnwinder.obstacle { notes.append("stacks are not unwound: \(obstacle)") }
        let unwinder = StackUnwinder(mappings: core.mappings, memory: core)
        let threads = core.threads.enumerated().map { index, thread in
            Finding.ThreadStack(
                id: thread.id == core.processID ? 1 : nil, threadID: thread.id, hasFaulted: index == 0,
                stack: unwinder.stack(from: thread.registers))
        }
        let source = try? HeapSource(core: core)
        if source == nil { notes.append("the core file is not of a guarded process: nothing is known of its heap") }
        var finding = diagnosis(source)
        finding.stacks.access = threads.first?.stack ?? []
        finding.thread = Finding.Thread(id: threads.first?.id ?? core.threads[0].id)
        finding.processID = core.processID
        finding.program = core.program
        finding.detail["signal"] = name
        finding.crash = Finding.Crash(
            signal: name, code: Int(signal.code), message: message,
            registers: Processor.registers(core.threads[0].registers), threads: threads)
        return (finding, notes + core.notes)
    }

    private var name: String { Self.names[signal.number] ?? "signal \(signal.number)" }

    /// libc's, of its own aborts: a word of its, which its own table of symbols names.
    private var message: String? {
        guard signal.number == SIGABRT, let place = core.address(ofSymbol: "__abort_msg", in: "libc.so"),
            let text = core.record(UInt64.self, at: place), text != 0
        else { return nil }
        let most = 2048
        let bytes = core.read(at: text &+ UInt64(MemoryLayout<UInt32>.size), upTo: most).prefix { $0 != 0 }
        let words = String(decoding: bytes, as: UTF8.self)
        return words.isEmpty ? nil : String(words.reversed().drop { $0 == "\n" }.reversed())
    }

    // MARK: What was touched

    private static let nullBytes: UInt64 = 4096
    // As the runtime looks for a stack that ran over: below its mapping, near the stack pointer.
    private static let stackBytes: UInt64 = 1 << 20

    private func diagnosis(_ source: HeapSource?) -> Finding {
        guard [SIGSEGV, SIGBUS].contains(signal.number), signal.code > 0 else { return Finding(kind: .crash) }
        let address = Address(signal.address)
        var finding = Finding(kind: .wildAccess, address: address)
        finding.detail["fault_address"] = "\(address)"
        let registers = core.threads[0].registers
        let sp = registers[Int(ZG_THREAD_SP)]
        if signal.code == Self.kernelsCode {
            // The kernel cannot name it.
            finding.detail["fault_address"] = nil
            finding.address = nil
        } else if signal.address < Self.nullBytes {
            finding.kind = .nullAccess
        } else if signal.address &- (sp &- Self.stackBytes) < 2 * Self.stackBytes, !isMapped(signal.address) {
            finding.kind = .stackOverflow
        }
        guard let source else { return finding }
        var reader = HistoryReader(source)
        complete(&finding, with: reader.history(of: address))
        return finding
    }

    private static let kernelsCode: Int32 = 0x80 // SI_KERNEL

    private func isMapped(_ address: UInt64) -> Bool {
        core.mappings.contains { $0.start <= address && address < $0.end }
    }

    private func complete(_ finding: inout Finding, with history: AddressHistory) {
        switch history.what {
        case .trap:
            finding.kind = .useAfterFree
            finding.access = history.trap?.access.map { Finding.Access(rawValue: $0) } ?? .unknown
            if history.trap?.objects != 1 { finding.confidence = .inferred }
        case .block where history.block?.isLive == false:
            finding.kind = .useAfterFree
        case .block where history.isInGuard:
            finding.kind = .heapOverflow
        case .fill:
            finding.kind = .useAfterFree
            finding.confidence = .inferred
        default: return
        }
        finding.block = history.block
        finding.stacks.free = history.stacks.free
        finding.stacks.alloc = history.stacks.alloc
        finding.history = history.changes
    }
}
