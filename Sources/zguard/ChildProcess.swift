// Starts the guarded program, passes signals on to it, and waits for its end.

import CSystem
import Glibc
import ZombieGuard

/// The program that a command runs. It gets the standard streams, the process group, the signal mask and the signal
/// dispositions that zguard got itself: signals are never handled here, only blocked and read from a descriptor.
struct ChildProcess {
    let processID: pid_t
    private let signals: Descriptor

    private let started = Self.now
    private let memory = MemoryKills()

    private static var now: Double {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }

    // Those that end zguard are passed on; it ends when the program does.
    private static let forwarded = [SIGTERM, SIGHUP, SIGUSR1, SIGUSR2]
    // The terminal sends these to the program as well; only what another process sent is passed on.
    private static let shared = [SIGINT, SIGQUIT]

    // Of writing a report to a pipe that nobody reads or beyond a limit: the call fails, and that is said.
    private static let survived = [SIGPIPE, SIGXFSZ]

    /// Starts `path`; `arguments` begin with the name that the program sees as its own.
    init(path: UnsafePointer<CChar>, arguments: [UnsafeMutablePointer<CChar>?], environment: ChildEnvironment)
        throws(SystemError)
    {
        var blocked = sigset_t()
        var original = sigset_t()
        sigemptyset(&blocked)
        for signal in Self.forwarded + Self.shared + [SIGCHLD] + Self.survived { sigaddset(&blocked, signal) }
        sigprocmask(SIG_BLOCK, &blocked, &original)

        // Where SIGCHLD is ignored, the kernel throws the program's exit status away.
        var childAction = sigaction()
        var defaultAction = sigaction()
        defaultAction.__sigaction_handler.sa_handler = SIG_DFL
        sigaction(SIGCHLD, &defaultAction, &childAction)

        for signal in Self.survived { sigdelset(&blocked, signal) }
        let descriptor = zg_system_signal_descriptor(&blocked)
        if descriptor < 0 { throw SystemError(number: -descriptor) }
        signals = Descriptor(adopting: descriptor)

        let argumentPointers = arguments + [nil]
        let result = argumentPointers.withUnsafeBufferPointer { argv in
            environment.withPointers { zg_system_spawn(path, argv.baseAddress, $0, &original, &childAction) }
        }
        if result < 0 { throw SystemError(number: -result) }
        processID = result
    }

    /// Waits for the program's end. Calls `tick` about every `milliseconds`, and when `descriptor` can be read (-1: none), and not after the
    /// end.
    func wait(every milliseconds: @autoclosure () -> Int32, or descriptor: Int32, tick: () throws -> Void) rethrows
        -> ProgramEnd
    {
        while true {
            var ready = [signals.number, descriptor].map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
            poll(&ready, 2, milliseconds())
            if let end = handleSignals() { return end }
            try tick()
        }
    }

    private func handleSignals() -> ProgramEnd? {
        while true {
            let signal = zg_system_next_signal(signals.number)
            switch signal.number {
            case 0: return nil
            case SIGCHLD:
                if let end = reap() { return end }
            case _ where Self.forwarded.contains(signal.number) || signal.by_user != 0:
                kill(processID, signal.number)
            default: break
            }
        }
    }

    private func reap() -> ProgramEnd? {
        let end = zg_system_reap(processID)
        if end.is_ended == 0 { return nil }
        let seconds = Self.now - started
        let signal = end.status & 0x7f
        var result = ProgramEnd(status: end.status >> 8 & 0xff, seconds: seconds)
        if signal != 0 {
            result = ProgramEnd(
                status: 128 + signal, signal: signal, cause: cause(of: signal, end), seconds: seconds)
            result.isCauseInferred = result.cause == .memory
        }
        result.isFiltered = end.seccomp > 0
        return result
    }

    private func cause(of signal: Int32, _ end: zg_system_end) -> ProgramEnd.Cause {
        // SECCOMP_MODE_STRICT kills by SIGKILL, a filter by SIGSYS; from Linux 5.17 on the kernel's word for who was killed is a third mode.
        let killedByStrict: [Int32] = [1, 3]
        let cpuSeconds = end.cpu_us / 1_000_000
        switch signal {
        case SIGSYS where end.seccomp > 0: return .seccomp
        case SIGKILL where killedByStrict.contains(end.seccomp): return .seccomp
        case SIGKILL where cpuSeconds >= end.cpu_hard: return .processorLimit
        case SIGKILL where memory.haveGrown: return .memory
        // The kernel has raised the soft limit by a second when it sent the signal.
        case SIGXCPU where end.cpu_soft != .max && cpuSeconds + 1 >= end.cpu_soft: return .processorLimit
        case SIGXFSZ: return .fileLimit
        case SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS: return .program
        default: return .unknown
        }
    }
}
