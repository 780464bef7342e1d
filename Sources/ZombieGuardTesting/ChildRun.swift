// Runs this test bundle in a child process for one call of expectZombie.

import CSystem
import CZombieTesting
import Glibc
import ZombieGuardCore

/// A child process, from its start until its temporary files have been read and deleted. Not thread-safe.
final class ChildRun {
    enum Outcome: Equatable {
        case ended(CInt)
        case signal(CInt)
        case killed
        case cancelled
        case unknown
    }

    struct Result {
        var outcome: Outcome
        var findings: [Finding]
        /// The child reached the call of expectZombie.
        var reachedCall = false
        /// The body returned.
        var endedBody = false
        /// Description of the error that the body threw.
        var thrown: String?
        /// Text printed by the body.
        var output = ""
    }

    struct Failure: Error, CustomStringConvertible {
        var description: String
    }

    /// Time limit for a child to reach its call, on a machine that is busy with other tests.
    static let longestStart = Duration.seconds(60)

    static let statusFile = "status"
    private static let findingsFile = "findings"
    private static let outputFile = "output"

    private let directory: String
    private let process: pid_t
    private let timeLimit: Duration
    private var deadline: ContinuousClock.Instant
    private var hasReachedCall = false
    private var end: Outcome?

    init(key: String, arguments: [String], timeLimit: Duration) throws(Failure) {
        directory = try Self.makeDirectory()
        do throws(SystemError) {
            let flags = O_WRONLY | O_CREAT | O_APPEND
            let output = try Descriptor(opening: "\(directory)/\(Self.outputFile)", flags: flags, mode: 0o600)
            process = try Self.spawn(arguments, Self.environment(key: key, directory: directory), output)
        } catch {
            Self.delete(directory)
            throw Failure(description: "\(error)")
        }
        self.timeLimit = timeLimit
        deadline = .now + max(Self.longestStart, timeLimit)
    }

    /// Returns how the child ended, or nil while it runs. Kills the child after its time limit.
    func poll() -> Outcome? {
        var code: CInt = 0
        switch zg_testing_poll(process, &code) {
        case 1: return end ?? .ended(code)
        case 2: return end ?? .signal(code)
        case 3: return end ?? .unknown
        default:
            if !hasReachedCall, access("\(directory)/\(Self.statusFile)", F_OK) == 0 {
                hasReachedCall = true
                deadline = .now + timeLimit
            }
            if end == nil, .now >= deadline { kill(.killed) }
            return nil
        }
    }

    /// Kills the child because the test was cancelled.
    func kill() { kill(.cancelled) }

    private func kill(_ end: Outcome) {
        if self.end != nil { return }
        self.end = end
        // The negative id kills the whole process group, so the child's descendants die, too.
        Glibc.kill(-process, SIGKILL)
    }

    /// Reads the child's temporary files and deletes them. `outcome` is the result of ``poll()``.
    func result(_ outcome: Outcome?) -> Result {
        defer { Self.delete(directory) }
        var result = Result(outcome: outcome ?? .unknown, findings: findings())
        var printedBefore = 0
        for line in text(Self.statusFile).split(separator: "\n") {
            let parts = line.split(separator: " ", maxSplits: 1)
            switch parts.first {
            case "reached"?:
                result.reachedCall = true
                printedBefore = parts.count == 2 ? Int(digits: parts[1]) ?? 0 : 0
            case "threw"?: result.thrown = parts.count == 2 ? String(parts[1]) : ""
            case "ended"?: result.endedBody = true
            default: break
            }
        }
        result.output = text(Self.outputFile, from: printedBefore)
        return result
    }

    private func findings() -> [Finding] {
        guard let file = try? Descriptor(opening: "\(directory)/\(Self.findingsFile)") else { return [] }
        var reader = FindingReader(source: file, author: Author(of: file))
        var findings: [Finding] = []
        while let entry = (try? reader.next()) ?? reader.finish() {
            if case .finding(let finding, _) = entry { findings.append(finding) }
        }
        return findings
    }

    // The file's text from `start`, limited to the last 64 KiB: a hanging body may print forever.
    private func text(_ name: String, from start: Int = 0) -> String {
        let most = 1 << 16
        guard let file = try? Descriptor(opening: "\(directory)/\(name)"), let size = file.status?.st_size,
            let bytes = try? file.read(at: UInt64(max(start, Int(size) - most)), upTo: most)
        else { return "" }
        return String(decoding: bytes, as: UTF8.self)
    }

    static func pause(milliseconds: CUnsignedInt) { usleep(milliseconds * 1000) }

    // Makes the directory in TMPDIR, or in /tmp if TMPDIR is unset, too long or contains a colon: the path becomes the
    // value of the option report_path, and colons separate options.
    private static func makeDirectory() throws(Failure) -> String {
        let wanted = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
        let parent = wanted.contains(":") || wanted.utf8.count > 400 || wanted.isEmpty ? "/tmp" : wanted
        var template = Array("\(parent)/zguard-expect-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else {
            throw Failure(description: "cannot make a directory in \(visible(parent)): \(SystemError.last)")
        }
        return template.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
    }

    private static func delete(_ directory: String) {
        for name in [statusFile, findingsFile, outputFile] { unlink("\(directory)/\(name)") }
        rmdir(directory)
    }

    private static func environment(key: String, directory: String) -> [String] {
        let options = "on_finding=abort:report_path=\(directory)/\(findingsFile)"
        let given = getenv("ZGUARD_OPTIONS").map { String(cString: $0) + ":" } ?? ""
        let changed = [
            "ZGUARD_OPTIONS": given + options, ExpectedZombieChild.keyVariable: key,
            ExpectedZombieChild.directoryVariable: directory,
            // The runtime's report contains the stacks; Swift's own backtrace would only take time.
            "SWIFT_BACKTRACE": "enable=no",
        ]
        return self.environment(without: Set(changed.keys)) + changed.map { "\($0)=\($1)" }
    }

    /// This process's environment without some variables.
    static func environment(without names: Set<String>) -> [String] {
        var kept: [String] = []
        var entry = zg_system_environment()
        while let text = entry?.pointee.map({ String(cString: $0) }) {
            if !names.contains(String(text.prefix { $0 != "=" })) { kept.append(text) }
            entry = entry?.successor()
        }
        return kept
    }

    private static func spawn(
        _ arguments: [String], _ environment: [String], _ output: Descriptor
    ) throws(SystemError) -> pid_t {
        // /proc/self/exe opens the running program even if its file has been replaced.
        let path = OwnProgram.isInProc ? "/proc/self/exe" : OwnProgram.path ?? OwnProgram.arguments[0]
        var words = ([OwnProgram.arguments[0]] + arguments).map { strdup($0) } + [nil]
        var variables = environment.map { strdup($0) } + [nil]
        defer { for text in words + variables { free(text) } }
        let child = zg_testing_spawn(path, &words, &variables, output.number)
        if child < 0 { throw SystemError(number: -child) }
        return child
    }
}

extension ChildRun.Result {
    /// The last lines that the body printed, to append to a message.
    var outputNote: String {
        let lines = output.split(separator: "\n").filter { !$0.allSatisfy(\.isWhitespace) }
        // Omits the stack trace that the Swift runtime prints after a fatal error: its frames have no useful names.
        let said = lines.prefix { !$0.hasPrefix("Current stack trace:") }.suffix(5)
        return said.isEmpty ? "" : "\nit printed:\n" + said.map { "    \(visible(String($0)))" }.joined(separator: "\n")
    }
}
