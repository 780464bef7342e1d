// Asks zguard about the heap of this process. zguard is a process of its own, so that the test bundle need not link the
// code that reads a heap, and no thread of the bundle has to stop the others.

import CSystem
import CZombieTesting
import Glibc
import Synchronization
import ZombieGuardCore

/// The zguard process that answers this process's questions, one at a time. The first question starts zguard.
enum HeapHelper {
    struct Failure: Error, CustomStringConvertible {
        var description: String
    }

    private struct Connection {
        var socket: Descriptor
        var lines: LineReader
        var program: String
        /// The process that started zguard. A forked child has a copy of the socket, but the answers are about its
        /// parent.
        var owner: pid_t
    }

    private enum State {
        case unused
        case connected(Connection)
        case failed(String)
    }

    private static let state = Mutex(State.unused)
    private static let longestAnswerSeconds = 120
    private static let pollMicroseconds: UInt32 = 10_000

    /// Asks a question, and waits for the answer.
    static func ask(_ question: HeapQuestion) throws(Failure) -> HeapAnswer {
        if let missing = Guarding.missing { throw Failure(description: missing) }
        let result = GuardRuntime.aside {
            state.withLock { state -> Result<HeapAnswer, Failure> in
                do throws(Failure) {
                    var connection = try connection(&state)
                    defer { if case .connected = state { state = .connected(connection) } }
                    do throws(Failure) { return .success(try exchange(question, &connection)) } catch {
                        // Do not start another zguard: it would not know which blocks were allocated before the current
                        // part of the test.
                        state = .failed(error.description)
                        throw error
                    }
                } catch {
                    return .failure(error)
                }
            }
        }
        let answer = try result.get()
        if let problem = answer.problem { throw Failure(description: visible(problem)) }
        return answer
    }

    private static func connection(_ state: inout State) throws(Failure) -> Connection {
        switch state {
        case .connected(let connection):
            if connection.owner == getpid() { return connection }
            throw Failure(description: "zguard answers the process that has forked this one")
        case .failed(let reason): throw Failure(description: reason)
        case .unused: break
        }
        do throws(Failure) {
            let connection = try start()
            state = .connected(connection)
            return connection
        } catch {
            state = .failed(error.description)
            throw error
        }
    }

    private static func exchange(
        _ question: HeapQuestion, _ connection: inout Connection
    ) throws(Failure) -> HeapAnswer {
        guard send(question.json.line + "\n", to: connection.socket) else {
            throw Failure(
                description: errno == EAGAIN
                    ? "zguard read no question within \(longestAnswerSeconds) seconds"
                    : "zguard has ended (\(visible(connection.program)))")
        }
        let answer = try HeapAnswer.read { () throws(Failure) in try nextLine(&connection) }
        guard let answer else { throw otherVersion(connection.program) }
        return answer
    }

    private static func otherVersion(_ program: String) -> Failure {
        Failure(description: "\(visible(program)) is another version than this library")
    }

    // Suppresses SIGPIPE, which would end the tests if zguard has ended.
    private static func send(_ text: String, to socket: Descriptor) -> Bool {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes {
                Glibc.send(socket.number, $0.baseAddress, $0.count, CInt(MSG_NOSIGNAL))
            }
            if count < 0, errno == EINTR { continue }
            if count <= 0 { return false }
            rest = rest.dropFirst(count)
        }
        return true
    }

    private static func nextLine(_ connection: inout Connection) throws(Failure) -> String {
        var line: LineReader.Line?
        do throws(SystemError) { line = try connection.lines.next() } catch {
            if error.number == EAGAIN {
                throw Failure(description: "zguard gave no answer within \(longestAnswerSeconds) seconds")
            }
        }
        if let line, line.isTooLong {
            throw Failure(description: "a line of zguard's answer is longer than \(LineReader.longestLine >> 20) MiB")
        }
        if let line { return String(decoding: line.bytes, as: UTF8.self) }
        throw Failure(description: "zguard has ended without an answer (\(visible(connection.program)))")
    }

    // MARK: Start

    private static func start() throws(Failure) -> Connection {
        let program = try path()
        var ends: [CInt] = [-1, -1]
        guard socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0, &ends) == 0 else {
            throw Failure(description: "no socket for zguard: \(SystemError.last)")
        }
        let own = Descriptor(adopting: ends[0])
        defer { if ends[1] >= 0 { close(ends[1]) } }
        var limit = timeval(tv_sec: longestAnswerSeconds, tv_usec: 0)
        for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
            setsockopt(own.number, SOL_SOCKET, option, &limit, socklen_t(MemoryLayout<timeval>.size))
        }
        let arguments = [program, "test-heap", "\(getpid())"]
        var words = arguments.map { strdup($0) } + [nil]
        var variables = ChildRun.environment(without: ["LD_PRELOAD"]).map { strdup($0) } + [nil]
        defer { for text in words + variables { free(text) } }
        // Allow any process to trace this one, until zguard has forked and the remaining process has sent its ID.
        zg_testing_allow_tracer(-1)
        var tracer: pid_t = 0
        defer { zg_testing_allow_tracer(tracer) }
        let child = zg_testing_start_helper(program, &words, &variables, ends[1])
        guard child > 0 else {
            throw Failure(description: "\(visible(program)) cannot be started: \(SystemError(number: -child))")
        }
        try waitForFork(of: child, program)
        var connection = Connection(socket: own, lines: LineReader(source: own), program: program, owner: getpid())
        // Close zguard's end of the socket here. Otherwise, this process would read no end of file when zguard exits.
        close(ends[1])
        ends[1] = -1
        guard let hello = HeapAnswer(line: try nextLine(&connection)), hello.version == zombieGuardVersion else {
            throw otherVersion(program)
        }
        if let problem = hello.problem { throw Failure(description: visible(problem)) }
        tracer = pid_t(truncatingIfNeeded: hello.processID)
        return connection
    }

    // Waits until the started process has ended: zguard forks and exits at once. Kills a program that is not zguard and
    // keeps running.
    private static func waitForFork(of child: pid_t, _ program: String) throws(Failure) {
        let end = ContinuousClock.now + .seconds(longestAnswerSeconds)
        var code: CInt = 0
        while zg_testing_poll(child, &code) == 0 {
            if ContinuousClock.now > end {
                // The program has its own process group: kill its children as well.
                kill(-child, SIGKILL)
                var status: CInt = 0
                while waitpid(child, &status, 0) < 0, errno == EINTR {}
                throw Failure(
                    description: "\(visible(program)) has not started within \(longestAnswerSeconds) seconds: "
                        + "it may be no zguard")
            }
            usleep(pollMicroseconds)
        }
    }

    /// Path of zguard: the value of ZGUARD if set, else beside the test bundle, where a build of the package puts it,
    /// else on the PATH.
    private static func path() throws(Failure) -> String {
        if let named = getenv("ZGUARD").map({ String(cString: $0) }), !named.isEmpty {
            if isProgram(named) { return named }
            throw Failure(description: "ZGUARD is '\(visible(named))', which is no program")
        }
        var folders = (getenv("PATH").map { String(cString: $0) } ?? "").split(separator: ":").map(String.init)
        if let bundle = OwnProgram.path, let end = bundle.lastIndex(of: "/") {
            folders.insert(String(bundle[..<end]), at: 0)
        }
        if let found = folders.map({ "\($0)/zguard" }).first(where: isProgram) { return found }
        throw Failure(
            description: "zguard, which looks at the heap, was not found: set ZGUARD to its path, or put it on the PATH"
        )
    }

    private static func isProgram(_ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFREG && access(path, X_OK) == 0
    }
}

/// The calling thread while it waits for zguard, which reads the thread's stack.
enum WaitingThread {
    /// Calls `body` with a stack pointer below the frames of all callers.
    static func withStackPointer<Result>(_ body: (Address) -> Result) -> Result {
        var result: Result?
        withoutActuallyEscaping(body) { body in
            var work: (UInt64) -> Void = { result = body(Address($0)) }
            withUnsafeMutablePointer(to: &work) { work in
                zg_testing_spill(
                    { context, stackPointer in
                        context?.assumingMemoryBound(to: ((UInt64) -> Void).self).pointee(stackPointer)
                    }, work)
            }
        }
        return result!
    }

    /// Asks a question, to which the calling thread's ID and stack pointer are added.
    static func ask(_ question: HeapQuestion) throws(HeapHelper.Failure) -> HeapAnswer {
        try withStackPointer { stackPointer in
            var question = question
            question.thread = Int(zg_system_thread_id())
            question.stackPointer = stackPointer
            return Result { () throws(HeapHelper.Failure) in try HeapHelper.ask(question) }
        }.get()
    }
}
