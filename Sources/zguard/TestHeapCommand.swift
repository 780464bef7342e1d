// zguard test-heap: answers the questions of a guarded test bundle, which has started it (ZombieGuardTesting).

import CUnwind
import Glibc
import ZombieGuard
import ZombieGuardGraph

struct TestHeapCommand {
    private let processID: Int
    private let output = Descriptor(adopting: dup(STDOUT_FILENO))

    /// Intervals in milliseconds at which zguard resumes threads that stopped late, because they were busy in the
    /// kernel. After a question, the first ``shortPauses`` intervals are short.
    private static let shortPause: Int32 = 10, longPause: Int32 = 500
    private static let shortPauses = 50

    init(_ arguments: Arguments) throws(Failure) { processID = try arguments.processID() }

    func run() throws -> Int32 {
        // Become a child of init: if the test process, which has started zguard, waits for any of its children, it must
        // not wait for zguard.
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

    // The next question; nil if the process has ended or closed the socket.
    private func next(_ lines: inout LineReader) throws -> LineReader.Line? {
        var pauses = 0
        while true {
            var ready = pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0)
            let result = poll(&ready, 1, pauses < Self.shortPauses ? Self.shortPause : Self.longPause)
            while zg_thread_release_next() != 0 {}
            if result > 0 { return try lines.next() }
            // Check whether the process exists: a child forked by the process may keep the other end of the socket
            // open.
            if result == 0, kill(pid_t(truncatingIfNeeded: processID), 0) != 0, errno == ESRCH { return nil }
            pauses += 1
        }
    }

    private func write(_ text: String) throws { try output.write(text + "\n") }

    static let command = Command(
        name: "test-heap", operands: "PID", operandCount: 1...1,
        text: "answer a test bundle's questions on standard input", run: { try TestHeapCommand($0).run() })
}
