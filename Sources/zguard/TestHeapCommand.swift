// zguard test-heap: answers the questions of a guarded test bundle, which has started it (ZombieGuardTesting).

import CUnwind
import Glibc
import ZombieGuard
import ZombieGuardGraph

struct TestHeapCommand {
    private let processID: Int
    private let output = Descriptor(adopting: dup(STDOUT_FILENO))

    /// Threads that stop late, because they were busy in the kernel, are resumed within this time, in milliseconds.
    private static let shortPause: Int32 = 10, longPause: Int32 = 500
    private static let shortPauses = 50

    init(_ arguments: Arguments) throws(Failure) { processID = try arguments.processID() }

    func run() throws -> Int32 {
        // The questions come from the process itself. Become a child of init, so that no wait of the process, for any
        // child, waits for this one.
        if daemon(1, 1) != 0 { return ExitStatus.failure }
        var hello = HeapAnswer()
        hello.processID = Int(getpid())
        let requests: TestRequests
        do {
            requests = try TestRequests(processID: processID)
        } catch {
            hello.problem = "\(error)"
            try write(hello.json.line)
            return ExitStatus.failure
        }
        try write(hello.json.line)
        var lines = LineReader(source: Descriptor(adopting: dup(STDIN_FILENO)))
        while let line = try next(&lines) {
            guard let question = HeapQuestion(line: String(decoding: line.bytes, as: UTF8.self)) else { break }
            try write(requests.answer(question).lines.joined(separator: "\n"))
        }
        return ExitStatus.success
    }

    // The next question; nil if the process has ended, or given up.
    private func next(_ lines: inout LineReader) throws -> LineReader.Line? {
        var pauses = 0
        while true {
            var ready = pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0)
            let result = poll(&ready, 1, pauses < Self.shortPauses ? Self.shortPause : Self.longPause)
            while zg_thread_release_next() != 0 {}
            if result > 0 { return try lines.next() }
            // A child that the process has forked may keep the other end open.
            if result == 0, kill(pid_t(truncatingIfNeeded: processID), 0) != 0, errno == ESRCH { return nil }
            pauses += 1
        }
    }

    private func write(_ text: String) throws { try output.write(text + "\n") }

    static let command = Command(
        name: "test-heap", operands: "PID", operandCount: 1...1,
        text: "answer a test bundle's questions on standard input", run: { try TestHeapCommand($0).run() })
}
