// Sends the messages of `zguard alerts`: to a program, a web address or the local sendmail.

import CSystem
import Glibc
import ZombieGuard

/// Sends messages. Used by one thread at a time.
final class AlertSender {
    /// Time limit for sending a message, in seconds. Must be shorter than the time for which an ``AlertWatcher`` claims
    /// the message.
    static let longest = 30

    private let sendmail: String
    private var curl: Curl?

    init(sendmail: String) {
        self.sendmail = sendmail
        // The parent process may have set SIGCHLD to ignored. Then the kernel would discard the exit status of
        // programs.
        signal(SIGCHLD, SIG_DFL)
    }

    /// Sends a message; returns after the recipient has accepted it.
    func send(_ message: AlertMessage, by way: AlertWay) throws(FleetError) {
        switch way.form {
        case .command(let words): try run(words, input: message.json.line + "\n", way)
        case .shell(let line): try run(["/bin/sh", "-c", line], input: message.json.line + "\n", way)
        case .mail(let addresses):
            try run([sendmail, "-t", "-i"], input: message.mail(to: addresses), way)
        case .webhook(let place): try post(message.json, message.id, to: place, way)
        case .slack(let place): try post(message.slack, message.id, to: place, way)
        case .teams(let place): try post(message.teams, message.id, to: place, way)
        }
    }

    // MARK: Web

    private func post(
        _ body: JSONText, _ id: String, to place: AlertWay.Place, _ way: AlertWay
    ) throws(FleetError) {
        let address = try Self.address(place)
        let curl = try Curl.opened(&curl)
        // The address is a secret: error messages contain `name` instead.
        try curl.post(
            Array(body.line.utf8), to: address,
            headers: ["Content-Type: application/json", "Idempotency-Key: \(id)", "Expect:"],
            name: "the address of '\(way.name)'", seconds: Self.longest)
    }

    private static func address(_ place: AlertWay.Place) throws(FleetError) -> String {
        let text: String
        switch place {
        case .address(let address): text = address
        case .file(let path):
            do throws(SystemError) { text = String(decoding: try readFile(path), as: UTF8.self) } catch {
                throw FleetError("cannot read '\(visible(path))': \(error)")
            }
        case .environment(let name):
            guard let value = getenv(name) else { throw FleetError("there is no variable '\(visible(name))'") }
            text = String(cString: value)
        }
        let address = String(text.split(whereSeparator: \.isWhitespace).first ?? "")
        if !AlertWay.isWeb(address) {
            throw FleetError("the address is not https://…, or http:// on this machine")
        }
        return address
    }

    // MARK: Programs

    /// Runs a program with an input; throws unless the program ends with status 0. The program's output goes to
    /// standard error.
    private func run(_ words: [String], input: String, _ way: AlertWay) throws(FleetError) {
        let name = visible(words[0])
        let file = zg_system_memfd("alert")
        if file < 0 { throw FleetError("cannot make the input of '\(name)': \(SystemError(number: -file))") }
        let contents = Descriptor(adopting: file)
        do throws(SystemError) { try contents.write(input) } catch {
            throw FleetError("cannot make the input of '\(name)': \(error)")
        }
        lseek(file, 0, SEEK_SET)
        let process: pid_t
        do throws(SystemError) { process = try Self.start(words, input: file) } catch {
            throw FleetError("cannot run '\(name)': \(error)")
        }
        guard let status = Self.wait(for: process, milliseconds: Self.longest * 1000) else {
            throw FleetError("'\(name)' did not end within \(Self.longest) s")
        }
        let signal = status & 0x7f
        if signal != 0 { throw FleetError("'\(name)' was ended by signal \(signal)") }
        let code = status >> 8 & 0xff
        if code != 0 { throw FleetError("'\(name)' ended with status \(code)") }
    }

    /// Starts a program in a process group of its own.
    private static func start(_ words: [String], input: Int32) throws(SystemError) -> pid_t {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO)
        posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO)
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var signals = sigset_t()
        sigemptyset(&signals)
        posix_spawnattr_setsigmask(&attributes, &signals)
        sigaddset(&signals, SIGPIPE)
        posix_spawnattr_setsigdefault(&attributes, &signals)
        posix_spawnattr_setflags(
            &attributes, Int16(POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))
        var pointers: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) }
        defer { for pointer in pointers { free(pointer) } }
        pointers.append(nil)
        var process: pid_t = 0
        let status = posix_spawn(&process, words[0], &actions, &attributes, pointers, environ)
        if status != 0 { throw SystemError(number: status) }
        return process
    }

    /// Waits for a program and returns its status. After the time limit, kills its process group and returns nil.
    private static func wait(for process: pid_t, milliseconds: Int) -> Int32? {
        var status: Int32 = 0
        var left = milliseconds
        while true {
            let ended = waitpid(process, &status, WNOHANG)
            if ended == process { return status }
            // Cannot happen: no other thread reaps the program.
            if ended < 0, errno != EINTR { return nil }
            if left <= 0 { break }
            usleep(5000)
            left -= 5
        }
        kill(-process, SIGKILL)
        kill(process, SIGKILL)
        while waitpid(process, &status, 0) < 0, errno == EINTR {}
        return nil
    }
}
