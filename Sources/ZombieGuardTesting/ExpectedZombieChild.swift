// The child process of a call of expectZombie: runs the body, reports its progress, and exits.

import Glibc
import ZombieGuardCore

/// The call for which this process was started. Progress is reported to the parent in a file, one line per event,
/// because standard output belongs to the body.
struct ExpectedZombieChild: Sendable {
    static let keyVariable = "ZGUARD_EXPECT_KEY"
    static let directoryVariable = "ZGUARD_EXPECT_DIRECTORY"

    /// The call for which this process was started; nil if the process is not a child of expectZombie.
    static let requested: ExpectedZombieChild? = {
        guard let key = getenv(keyVariable), let directory = getenv(directoryVariable) else { return nil }
        return ExpectedZombieChild(key: String(cString: key), directory: String(cString: directory))
    }()

    let key: String
    let directory: String

    /// Reports that the call was reached, with the current position in the output file, where the body's output begins.
    func begin(_ timeLimit: Duration) {
        fflush(nil)
        tell("reached \(lseek(STDOUT_FILENO, 0, SEEK_CUR))")
        // SIGALRM ends a hanging body even if the parent is gone.
        alarm(CUnsignedInt(clamping: timeLimit.components.seconds &+ 10))
    }

    /// Reports how the body ended, verifies freed memory (the first late write aborts the process), and exits.
    func end(_ failure: (any Error)?) -> Never {
        fflush(nil)
        tell(failure.map { "threw \($0)" } ?? "ended")
        _ = GuardRuntime.current?.verify()
        _exit(0)
    }

    private func tell(_ word: String) {
        let flags = O_WRONLY | O_CREAT | O_APPEND
        try? Descriptor(opening: "\(directory)/\(ChildRun.statusFile)", flags: flags, mode: 0o600)
            .write(word.replacing("\n", with: " ") + "\n")
    }
}
