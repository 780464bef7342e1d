// Extracts a crash from a core file: signal, threads, and the block or mapping at the fault address.

import CUnwind
import CZombie
import Glibc

/// The crash of a program, as recorded in its core file.
public struct CrashInCore {
    private let core: CoreFile
    private let signal: CoreNotes.Signal

    private static let names: [Int32: String] = [
        SIGSEGV: "SIGSEGV", SIGBUS: "SIGBUS", SIGABRT: "SIGABRT", SIGILL: "SIGILL", SIGTRAP: "SIGTRAP",
        SIGFPE: "SIGFPE",
        SIGSYS: "SIGSYS", SIGXCPU: "SIGXCPU", SIGXFSZ: "SIGXFSZ", SIGQUIT: "SIGQUIT",
    ]

    /// Takes a core file that was written because of a signal. Nil if the file records no signal or no thread.
    ///
    /// - Parameter core: an open core file.
    public init?(_ core: CoreFile) {
        guard let signal = core.signal, !core.threads.isEmpty else { return nil }
        self.core = core
        self.signal = signal
    }

    /// The finding for the crash, not symbolicated. This is the runtime's last finding, if that explains the crash.
    /// Otherwise, signals other than SIGSEGV and SIGBUS, and signals that a process sent, give the kind
    /// ``Finding/Kind/crash``; faults give a null access, a stack overflow or a wild access. If the process was guarded
    /// and its heap explains the fault address, the finding instead describes the misuse of the block there.
    ///
    /// - Returns: a raw finding, and notes about what could not be read.
    public func finding() -> (finding: Finding, notes: [String]) {
        var notes: [String] = []
        if let obstacle = StackUnwinder.obstacle { notes.append("stacks are not unwound: \(obstacle)") }
        let unwinder = StackUnwinder(mappings: core.mappings, memory: core)
        var threads = core.threads.enumerated().map { index, thread in
            Finding.ThreadStack(
                id: thread.id == core.processID ? 1 : nil, threadID: thread.id, hasFaulted: index == 0,
                stack: index == 0 ? stackOfFault(unwinder) : unwinder.stack(from: thread.registers))
        }
        let source = try? HeapReader(core: core)
        if source == nil { notes.append("the process of the core file was not guarded: its heap was not examined") }
        let kept = source.map { KeptText($0) }
        if var finding = kept?.lastFinding(), let context = isEnd(finding, source) {
            if context == .another { threads[0].stack = [] }
            finding.detail["threads"] = nil
            var crash = finding.crash ?? crash(kept)
            crash.message = crash.message ?? goPanicMessage
            finding.crash = crash
            finding.add(threads)
            finding.author = core.author
            return (finding, notes + core.notes)
        }
        var finding = diagnosis(source)
        finding.thread = Finding.Thread(id: threads.first?.id ?? core.threads[0].id)
        finding.processID = core.processID
        finding.program = core.program
        finding.detail["signal"] = name
        finding.crash = crash(kept)
        finding.add(threads)
        finding.author = core.author
        return (finding, notes + core.notes)
    }

    private func crash(_ kept: KeptText?) -> Finding.Crash {
        Finding.Crash(
            signal: name, code: Int(signal.code), message: message(kept),
            registers: Processor.registers(core.threads[0].registers), annotations: kept?.annotations() ?? [:])
    }

    private enum Context { case same, another }

    // Relation of the runtime's last finding to this crash; nil if the finding is of another process, or does not
    // explain the signal. `same`: the finding has the registers of the crashed thread, or its access stack begins at
    // that thread's pc. `another`: the finding is an earlier fault, whose handler raised this signal, or an earlier
    // misuse, after which the runtime or abort() raised SIGABRT.
    private func isEnd(_ finding: Finding, _ source: HeapReader?) -> Context? {
        guard let process = finding.processID, process == core.processID || process == source?.statistics.processID
        else { return nil }
        let registers = Processor.registers(core.threads[0].registers)
        // The finding describes a fault whose handler raised this signal.
        if finding.detail["ended_by"] == name { return .another }
        if let crash = finding.crash {
            if crash.signal != name { return nil }
            if crash.registers == registers { return .same }
            return signal.number == SIGABRT ? .another : nil
        }
        let isHere = finding.stacks.access.first?.pc == Address(core.threads[0].registers[Int(ZG_THREAD_PC)])
        return isHere && finding.detail["signal"] == name ? .same : nil
    }

    // The stack of the crashed thread. If the thread called an invalid address, unwinds from the caller, and puts the
    // invalid pc in front as the first frame, unless it is 0.
    private func stackOfFault(_ unwinder: StackUnwinder) -> [Finding.Frame] {
        var registers = core.threads[0].registers
        let pc = registers[Int(ZG_THREAD_PC)]
        let isNowhere = [SIGSEGV, SIGBUS].contains(signal.number) && signal.code > 0 && signal.address == pc
        guard isNowhere, Processor.undoCall(&registers, memory: { core.record(UInt64.self, at: $0) }) else {
            return unwinder.stack(from: registers)
        }
        return (pc == 0 ? [] : [Finding.Frame(pc: Address(pc))]) + unwinder.stack(from: registers, isInCall: true)
    }

    private var name: String { Self.names[signal.number] ?? "signal \(signal.number)" }

    /// The message of an abort by libc (`__abort_msg`), else the message in the thread's output to standard error, else
    /// the message of a Go panic.
    private func message(_ kept: KeptText?) -> String? {
        let isOwn = signal.code > 0 || signal.sender == core.processID
        if signal.number == SIGABRT, let place = core.address(ofSymbol: "__abort_msg", in: "libc.so"),
            let text = core.record(UInt64.self, at: place), text != 0
        {
            let most = 2048
            let bytes = core.read(at: text &+ UInt64(MemoryLayout<UInt32>.size), upTo: most).prefix { $0 != 0 }
            let words = String(decoding: bytes, as: UTF8.self)
            return words.isEmpty ? nil : words.withoutLineEnds
        }
        return kept?.reason(for: signal.number, of: core.threads[0].id, isOwn: isOwn) ?? goPanicMessage
    }

    /// Message of a Go panic. Go's runtime writes it with its own system calls, which zguard does not see.
    private var goPanicMessage: String? {
        signal.number == SIGABRT ? GoPanic(registers: core.threads[0].registers, in: core)?.message : nil
    }

    // MARK: What was touched

    private static let nullBytes: UInt64 = 4096
    // The runtime's rule for a stack overflow: an unmapped address within 1 MiB of the stack pointer.
    private static let stackBytes: UInt64 = 1 << 20

    private func diagnosis(_ source: HeapReader?) -> Finding {
        guard [SIGSEGV, SIGBUS].contains(signal.number), signal.code > 0 else { return Finding(kind: .crash) }
        let address = Address(signal.address)
        var finding = Finding(kind: .wildAccess, address: address)
        finding.detail["fault_address"] = "\(address)"
        finding.access = access
        let registers = core.threads[0].registers
        let sp = registers[Int(ZG_THREAD_SP)]
        if signal.code == Self.kernelsCode {
            // The kernel does not know the address (SI_KERNEL), for example if it is not canonical.
            finding.detail["fault_address"] = nil
            finding.address = nil
            finding.confidence = .inferred
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

    // Decodes the instruction, because a core file does not contain the error code that a signal handler gets.
    private var access: Finding.Access {
        let pc = core.threads[0].registers[Int(ZG_THREAD_PC)]
        if pc == signal.address { return .call }
        let longest = 16
        let code = core.read(at: pc, upTo: longest)
        return switch zg_arch_decode_access(code, Int32(code.count)) {
        case zg_fault_read: .read
        case zg_fault_write: .write
        case zg_fault_execute: .call
        default: .unknown
        }
    }

    private static let kernelsCode: Int32 = 0x80 // SI_KERNEL

    private func isMapped(_ address: UInt64) -> Bool {
        core.mappings.contains { $0.start <= address && address < $0.end }
    }

    private func complete(_ finding: inout Finding, with history: AddressHistory) {
        switch history.what {
        case .trap:
            finding.kind = .useAfterFree
            finding.access = history.trap?.access.map { Finding.Access(rawValue: $0) } ?? access
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
