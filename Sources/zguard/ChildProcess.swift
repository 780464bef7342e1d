// Starts the guarded program, passes signals on to it, and waits for its end.

import CSystem
import Glibc
import ZombieGuard

/// The program that a command runs. It gets the standard streams, the process group, the signal mask and the signal
/// dispositions that zguard got itself: signals are never handled here, only blocked and read from a descriptor.
struct ChildProcess {
    let processID: pid_t
    private let signals: Descriptor

    /// How a program ended.
    enum End: Hashable {
        case exited(Int32)
        case killed(Int32)

        /// As shells see it: 128 + signal for a death by signal.
        var status: Int32 {
            switch self {
            case .exited(let status): status
            case .killed(let signal): 128 + signal
            }
        }

        var isByItself: Bool { if case .exited = self { true } else { false } }
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
        -> End
    {
        while true {
            var ready = [signals.number, descriptor].map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
            poll(&ready, 2, milliseconds())
            if let end = handleSignals() { return end }
            try tick()
        }
    }

    private func handleSignals() -> End? {
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

    private func reap() -> End? {
        // Whoever traces hears of stops, too, whatever it waits for: that of a thread that is looked at is left to who looks.
        var info = siginfo_t()
        var status: Int32 = 0
        guard waitid(P_PID, id_t(processID), &info, WEXITED | WNOHANG | WNOWAIT) == 0, info.si_signo == SIGCHLD,
            [Int32(CLD_EXITED), Int32(CLD_KILLED), Int32(CLD_DUMPED)].contains(info.si_code),
            waitpid(processID, &status, WNOHANG) == processID
        else { return nil }
        let signal = status & 0x7f
        return signal == 0 ? .exited(status >> 8 & 0xff) : .killed(signal)
    }
}
