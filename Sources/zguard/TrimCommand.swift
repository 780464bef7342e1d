// zguard trim: makes a guarded process return free memory to the kernel.

import ZombieGuard

struct TrimCommand {
    private let processID: Int

    init(_ arguments: Arguments) throws(Failure) { processID = try arguments.processID() }

    func run() throws -> Int32 {
        switch try GuardedProcess(processID: processID).trim() {
        case .given(let bytes):
            Output.out("\(bytes) bytes (\(byteText(bytes))) given back by process \(processID)\n")
            return ExitStatus.success
        case .postponed:
            Output.out(
                "process \(processID) has no maintenance thread: it will give memory back at its next allocation\n")
            return ExitStatus.failure
        case .silent:
            throw Failure("process \(processID) does not answer: it is stopped or very busy")
        }
    }
}

extension TrimCommand {
    static let command = Command(
        name: "trim", operands: "PID", operandCount: 1...1, text: "make a process return memory to the kernel now",
        run: { try TrimCommand($0).run() })
}
