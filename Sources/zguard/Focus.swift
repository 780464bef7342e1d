// zguard run --focus: isolates every block of the allocation stacks of known findings.

import Glibc
import ZombieGuard
import ZombieGuardFleet

/// Focused allocation stacks, and how their blocks are placed in their pages.
struct Focus {
    /// Place of a block (enum zg_focus). The raw value stands for the place in the run's focus file
    /// (zg_run_directory.h).
    enum Place: String {
        /// In front of the guard page, aligned as malloc promises.
        case end = "E"
        /// In front of the guard page, aligned only as far as the block's size allows: a write right behind the block
        /// faults.
        case exactEnd = "x"
        /// Right behind a guard page: a write in front of the block faults.
        case start = "S"
    }

    /// Alignment that malloc promises, in bytes.
    private static let alignment: Int64 = 16

    private(set) var places: [UInt64: Place] = [:]
    /// Number of stacks that were left out because the runtime's table is full.
    private(set) var surplus = 0

    init() {}

    /// Reads the findings that `--focus` names.
    init(_ arguments: Arguments) throws(Failure) {
        if arguments.has("--runs"), !arguments.has("--pinpoint") { throw .usage("option '--runs' needs '--pinpoint'") }
        for name in arguments.values["--focus"] ?? [] {
            var isAdded = false
            let (path, signature) = try Self.place(name, report: arguments.value("--report"))
            for finding in try Self.findings(in: path, signature) where add(finding) { isAdded = true }
            if !isAdded {
                throw .usage(
                    "option '--focus': '\(visible(path))' holds no finding \(signature.map { "with signature \($0) and" } ?? "with") an allocation stack",
                    hint: "'zguard report \(visible(path))' shows the findings")
            }
        }
        if surplus > 0 {
            Output.warn("'--focus' watches \(RunDirectory.focusedStacksMost) stacks, and leaves out \(surplus) more")
        }
    }

    /// Adds the finding's allocation stack, or counts it in `surplus` if the table is full. Returns false if the
    /// finding has no allocation stack.
    @discardableResult
    mutating func add(_ finding: Finding) -> Bool {
        guard let identity = Finding.Stacks.identity(of: finding.stacks.alloc) else { return false }
        if places[identity] == nil, places.count == RunDirectory.focusedStacksMost {
            surplus += 1
            return true
        }
        // Keep the place that an earlier finding needs, unless this finding needs another one.
        let place = Self.place(for: finding)
        if places[identity] == nil || place != .end { places[identity] = place }
        return true
    }

    private static func place(for finding: Finding) -> Place {
        guard finding.kind == .heapOverflow, let address = finding.address, let block = finding.block else {
            return .end
        }
        guard let offset = address.distance(from: block.start) else { return .start }
        let size = Int64(clamping: block.size)
        let gap = size..<max(size, (size &+ alignment - 1) / alignment * alignment)
        return gap.contains(Int64(clamping: offset)) ? .exactEnd : .end
    }

    /// Writes the file that the runtime reads. Returns its path; nil if no stack is focused.
    func write(in directory: RunDirectory) throws(Failure) -> String? {
        if places.isEmpty { return nil }
        let path = directory.focus
        do throws(SystemError) {
            let file = try Descriptor(
                opening: path, flags: O_WRONLY | O_CREAT | O_EXCL, mode: RunDirectory.focusMode)
            // The umask may have removed permissions.
            if fchmod(file.number, RunDirectory.focusMode) != 0 { throw .last }
            try file.write(places.map { Finding.Stacks.digits(ofIdentity: $0.key) + $0.value.rawValue + "\n" }.joined())
        } catch {
            throw Failure("cannot create '\(visible(path))': \(error)", status: ExitStatus.cannotGuard)
        }
        return path
    }

    /// A message about blocks of focused stacks that were not watched in a run; nil if all were watched.
    func lack(_ coverage: Coverage) -> String? {
        if places.isEmpty { return nil }
        if coverage.focusedBlocks == 0 {
            return
                "no block of a focused allocation stack was allocated: the program did not come there, or its files have changed since the finding"
        }
        let missed = coverage.focusedBlocks - coverage.focusedIsolated
        if missed == 0 { return nil }
        return "\(missed) of \(coverage.focusedBlocks) blocks of focused allocation stacks got no pages of their own"
    }

    // MARK: Reading

    // Parses a value of --focus: PATH, PATH#SIGNATURE, or a SIGNATURE to look up in the report of earlier runs.
    private static func place(_ name: String, report: String?) throws(Failure) -> (path: String, signature: String?) {
        if access(name, F_OK) == 0 { return (name, nil) }
        if isSignature(name[...]) {
            if let report { return (report, name) }
            throw .usage(
                "option '--focus': \(name) is a signature, and no report is named in which to find it",
                hint: "--focus PATH#\(name)")
        }
        guard let hash = name.lastIndex(of: "#"), isSignature(name[name.index(after: hash)...]) else {
            return (name, nil)
        }
        return (String(name[..<hash]), String(name[name.index(after: hash)...]))
    }

    private static func findings(in path: String, _ signature: String?) throws(Failure) -> [Finding] {
        var values: [String: [String]] = [:]
        values["--signature"] = signature.map { [$0] }
        do throws(Failure) {
            return try ReportCommand(Arguments(values: values, operands: [path])).findings()
        } catch {
            throw .usage(
                "option '--focus': \(error.message)",
                hint: error.hint ?? "--focus takes a report, PATH#SIGNATURE, or a directory of reports")
        }
    }

    private static func isSignature(_ text: Substring) -> Bool {
        text.utf8.count == 16 && text.utf8.allSatisfy { "0123456789abcdef".utf8.contains($0) }
    }
}
