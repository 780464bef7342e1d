// The child process of an expectZombie: runs the body, tells how far it got, and ends.

import Glibc
import ZombieGuardCore

/// The call that this process was started for. It tells its parent through a file, one word after the other, because
/// what it prints belongs to the body.
struct ExpectedZombieChild: Sendable {
    static let keyVariable = "ZGUARD_EXPECT_KEY"
    static let directoryVariable = "ZGUARD_EXPECT_DIRECTORY"

    /// nil in every process that is no such child.
    static let requested: ExpectedZombieChild? = {
        guard let key = getenv(keyVariable), let directory = getenv(directoryVariable) else { return nil }
        return ExpectedZombieChild(key: String(cString: key), directory: String(cString: directory))
    }()

    let key: String
    let directory: String

    /// Says that the call is reached. What is printed from now on comes from the body.
    func begin(_ timeLimit: Duration) {
        fflush(nil)
        tell("reached \(lseek(STDOUT_FILENO, 0, SEEK_CUR))")
        // Where the parent is gone, nobody else ends a body that hangs.
        alarm(CUnsignedInt(clamping: timeLimit.components.seconds &+ 10))
    }

    /// Says how the body ended, looks for late writes, which end the process at the first, and ends it.
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
