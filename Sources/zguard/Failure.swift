// The error that ends a command: a one-line message, an optional hint, and an exit status.

import ZombieGuard

/// Exit statuses of zguard. `ProgramRefusal` defines the statuses for programs that `zguard run` cannot run.
enum ExitStatus {
    static let success: Int32 = 0
    static let failure: Int32 = 1
    static let usage: Int32 = 64
    static let coverage: Int32 = 98
    static let findings: Int32 = 99
    static let cannotGuard = ProgramRefusal.Status.cannotGuard.rawValue
    static let cannotRun = ProgramRefusal.Status.cannotRun.rawValue
    static let notFound = ProgramRefusal.Status.notFound.rawValue
}

/// An error that ends a command. The message is one line in lower case without control characters.
struct Failure: Error, Hashable {
    var message: String
    var hint: String?
    var status: Int32

    init(_ message: String, hint: String? = nil, status: Int32 = ExitStatus.failure) {
        self.message = message
        self.hint = hint
        self.status = status
    }

    static func usage(_ message: String, hint: String? = nil) -> Failure {
        Failure(message, hint: hint, status: ExitStatus.usage)
    }

    init(_ error: ProcessError) { self.init(error.description, hint: error.hint) }
    init(_ refusal: ProgramRefusal) {
        self.init(refusal.message, hint: refusal.hint, status: refusal.status.rawValue)
    }
}
