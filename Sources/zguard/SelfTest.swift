// The self-test of zguard doctor: runs a program guarded and reads its statistics page.

import Glibc
import ZombieGuard

enum SelfTest {
    private static let program = "/bin/cat"
    private static let attempts = 400
    private static let pauseMicroseconds: UInt32 = 5000

    /// False if cat is missing, as in a minimal root file system.
    static var canRun: Bool { access(program, X_OK) == 0 }

    /// The reason why the self-test cannot run.
    static let obstacle = "\(program) does not exist; run a program guarded to see whether it works"

    /// Runs cat with the runtime preloaded, reads its statistics while it waits for input, and closes the input.
    static func run() -> Result<String, Failure> {
        do throws(Failure) {
            guard OwnProgram.isInProc else { return .success(try attemptUnseen()) }
            let statistics = try attempt(with: nil)
            let degradations = statistics.degradations.map(\.name).joined(separator: ", ")
            return .success("\(program) ran guarded" + (degradations.isEmpty ? "" : "; degraded: \(degradations)"))
        } catch {
            return .failure(error)
        }
    }

    /// Whether the runtime recognizes the object layout of this Swift runtime library. The runtime checks it at process
    /// start.
    static func knowsLayout(of swiftRuntime: String) -> Result<Bool, Failure> {
        do throws(Failure) {
            return .success(try !attempt(with: swiftRuntime).degradations.contains { $0.name == "swift_layout" })
        } catch {
            return .failure(error)
        }
    }

    // The self-test without /proc, where statistics pages cannot be read: checks that the runtime created the file for
    // findings.
    private static func attemptUnseen() throws(Failure) -> String {
        var template = Array("/tmp/zguard-doctor-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw Failure("cannot create a directory in /tmp: \(SystemError.last)") }
        let directory = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        let findings = "\(directory)/findings"
        defer {
            unlink(findings)
            rmdir(directory)
        }
        let environment = ChildEnvironment.guarding(
            library: try Preload.library(), options: "report_path=\(findings)", filters: SystemCallFilters())
        var input: [Int32] = [0, 0]
        guard pipe(&input) == 0 else { throw Failure("cannot make a pipe: \(SystemError.last)") }
        close(input[1]) // the program reads end of file at once
        let status = try wait(for: start(environment, reading: Descriptor(adopting: input[0])))
        guard status == 0 else { throw Failure("\(program) failed when guarded (wait status \(status))") }
        guard access(findings, F_OK) == 0 else { throw Self.inactive }
        return "\(program) ran guarded; without /proc, its statistics cannot be read"
    }

    private static let inactive = Failure(
        "\(program) ran, but the runtime was not active: did the loader refuse the library?")

    private static func start(_ environment: ChildEnvironment, reading input: Descriptor) throws(Failure) -> pid_t {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, input.number, STDIN_FILENO)
        posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0)
        var processID: pid_t = 0
        let name = strdup(program)
        defer { free(name) }
        let argv = [name, nil]
        let error = environment.withPointers { posix_spawn(&processID, program, &actions, nil, argv, $0) }
        guard error == 0 else { throw Failure("cannot start \(program): \(SystemError(number: error))") }
        return processID
    }

    private static func wait(for processID: pid_t) -> Int32 {
        var status: Int32 = 0
        while waitpid(processID, &status, 0) < 0, errno == EINTR {}
        return status
    }

    private static func attempt(with swiftRuntime: String?) throws(Failure) -> Statistics {
        let library = [try Preload.library(), swiftRuntime].compactMap { $0 }.joined(separator: ":")
        let environment = ChildEnvironment.guarding(library: library, options: "", filters: SystemCallFilters())
        var input: [Int32] = [0, 0]
        guard pipe(&input) == 0 else { throw Failure("cannot make a pipe: \(SystemError.last)") }
        for end in input { _ = fcntl(end, F_SETFD, FD_CLOEXEC) } // an inherited write end would keep the input open
        let readEnd = Descriptor(adopting: input[0])
        // Kept open until the statistics have been read; closing it ends the program.
        var writeEnd: Descriptor? = Descriptor(adopting: input[1])

        let processID = try start(environment, reading: readEnd)
        let statistics = look(at: Int(processID))
        _ = writeEnd.take()
        let status = wait(for: processID)
        guard status == 0 else { throw Failure("\(program) failed when guarded (wait status \(status))") }
        guard let statistics else {
            throw Self.inactive
        }
        return statistics
    }

    // Retries, because the child has no statistics page between fork and exec.
    private static func look(at processID: Int) -> Statistics? {
        for _ in 0..<attempts {
            if let statistics = try? GuardedProcess(processID: processID).statistics() { return statistics }
            if kill(pid_t(processID), 0) != 0 { return nil }
            usleep(pauseMicroseconds)
        }
        return nil
    }
}
