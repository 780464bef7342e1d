// Starts the guarded program, forwards signals to it, and waits for its end.

import CSystem
import Glibc
import ZombieGuard

/// The program that a command runs. The program inherits zguard's standard streams, process group, and original signal
/// mask and dispositions. zguard installs no signal handlers: it blocks signals and reads them from a signalfd.
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

    // Terminating signals that are forwarded to the program. zguard exits when the program ends.
    private static let forwarded = [SIGTERM, SIGHUP, SIGUSR1, SIGUSR2]
    // The terminal sends these to the program as well, so they are forwarded only if sent by another process.
    private static let shared = [SIGINT, SIGQUIT]

    // Signals by which a user or a supervisor asks a program to end.
    private static let ending = [SIGTERM, SIGHUP, SIGINT, SIGQUIT]

    // Blocked signals. While they are blocked, writing a report to a closed pipe or beyond RLIMIT_FSIZE fails with an
    // error, which zguard reports.
    private static let survived = [SIGPIPE, SIGXFSZ]

    // Signal mask, and action of SIGCHLD, with which zguard was started. Read before the first program is started.
    private static let inherited: (mask: sigset_t, childAction: sigaction) = {
        var mask = sigset_t()
        var action = sigaction()
        sigprocmask(SIG_BLOCK, nil, &mask)
        sigaction(SIGCHLD, nil, &action)
        return (mask, action)
    }()

    /// Starts `path`. `arguments` includes argv[0].
    init(path: UnsafePointer<CChar>, arguments: [UnsafeMutablePointer<CChar>?], environment: ChildEnvironment)
        throws(SystemError)
    {
        var blocked = sigset_t()
        var (original, childAction) = Self.inherited
        sigemptyset(&blocked)
        for signal in Self.forwarded + Self.shared + [SIGCHLD] + Self.survived { sigaddset(&blocked, signal) }
        sigprocmask(SIG_BLOCK, &blocked, nil)

        // If SIGCHLD is ignored, the kernel discards the program's exit status.
        var defaultAction = sigaction()
        defaultAction.__sigaction_handler.sa_handler = SIG_DFL
        sigaction(SIGCHLD, &defaultAction, nil)

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

    /// Waits for the program's end. Until then, calls `tick` about every `milliseconds` and whenever `descriptor` is
    /// readable (-1 for none).
    func wait(every milliseconds: @autoclosure () -> Int32, or descriptor: Int32, tick: () throws -> Void) rethrows
        -> ProgramEnd
    {
        var wasAskedToEnd = false
        while true {
            var ready = [signals.number, descriptor].map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
            poll(&ready, 2, milliseconds())
            if var end = handleSignals(&wasAskedToEnd) {
                end.wasAskedToEnd = wasAskedToEnd
                return end
            }
            try tick()
        }
    }

    private func handleSignals(_ wasAskedToEnd: inout Bool) -> ProgramEnd? {
        while true {
            let signal = zg_system_next_signal(signals.number)
            if Self.ending.contains(signal.number) { wasAskedToEnd = true }
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
        // SECCOMP_MODE_STRICT kills with SIGKILL, a filter kills with SIGSYS. Since Linux 5.17, the mode of a killed
        // process is 3 (SECCOMP_MODE_DEAD).
        let killedByStrict: [Int32] = [1, 3]
        let cpuSeconds = end.cpu_us / 1_000_000
        switch signal {
        case SIGSYS where end.seccomp > 0: return .seccomp
        case SIGKILL where killedByStrict.contains(end.seccomp): return .seccomp
        case SIGKILL where cpuSeconds >= end.cpu_hard: return .processorLimit
        case SIGKILL where memory.haveGrown: return .memory
        // The kernel raises the soft limit by one second when it sends SIGXCPU.
        case SIGXCPU where end.cpu_soft != .max && cpuSeconds + 1 >= end.cpu_soft: return .processorLimit
        case SIGXFSZ: return .fileLimit
        case SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS: return .program
        default: return .unknown
        }
    }
}
