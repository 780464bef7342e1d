// zguard heap: shows live blocks by class, by allocation stack and by size, and the growth of classes and stacks.

import Glibc
import ZombieGuard
import ZombieGuardGraph

struct HeapCommand {
    private let arguments: Arguments
    private let format: String
    private let limit: Int
    private let symbols: SymbolSources
    private let earlier: SavedHeap?

    init(_ arguments: Arguments) throws(Failure) {
        self.arguments = arguments
        format = arguments.value("--format") ?? "text"
        limit = try arguments.limit()
        symbols = try ReportOptions(arguments).symbols
        earlier = try arguments.value("--since").map { path throws(Failure) in try Self.saved(path) }
    }

    private static let longestFile: Int64 = 1 << 30

    private static func saved(_ path: String) throws(Failure) -> SavedHeap {
        let bytes: [UInt8]
        do throws(SystemError) {
            let file = try Descriptor(opening: path)
            guard let status = file.status, status.st_size <= longestFile else { throw SystemError(number: EFBIG) }
            bytes = try file.readWhole()
        } catch {
            throw Failure("cannot read '\(visible(path))': \(error)")
        }
        guard let saved = SavedHeap(bytes) else {
            throw Failure(
                "'\(visible(path))' is not a saved heap", hint: "'zguard heap --save \(visible(path)) PID' writes one")
        }
        return saved
    }

    func run() throws -> Int32 {
        let target = try GraphTarget(arguments)
        let snapshot = try target.snapshot(.blocks)
        let time = Timestamp.now.description
        let ages = HeapAges(snapshot, since: earlier, time: time)
        let stackSource = (try? target.reader()) ?? snapshot.source
        let summary = HeapSummary(snapshot, ClassTable(snapshot), ages: ages, stackSource: stackSource)
        let notes = snapshot.source.notes + stackSource.notes.filter { !snapshot.source.notes.contains($0) }
        let symbolicator = Symbolicator(sources: symbols)
        symbolicator.author = target.author
        let report = HeapReport(
            summary, snapshot.source.statistics, ages, symbolicator, earlier: earlier, limit: limit, time: time)
        if let path = arguments.value("--save") { try save(report, to: path) }
        switch format {
        case "json": Output.out(report.json())
        case "html": Output.out(HeapPage(report, notes: notes, isFull: arguments.has("--full")).text)
        default: Output.out(report.text)
        }
        for note in notes + symbolicator.notes { Output.warn(note) }
        return ExitStatus.success
    }

    private func save(_ report: HeapReport, to path: String) throws(Failure) {
        do throws(SystemError) {
            let file = try Descriptor(opening: path, flags: O_WRONLY | O_CREAT | O_TRUNC, mode: 0o600)
            try file.write(report.json(isComplete: true))
        } catch {
            throw Failure("cannot write '\(visible(path))': \(error)")
        }
    }
}

extension HeapCommand {
    static let command = Command(
        name: "heap", operands: "PID|CORE", operandCount: 1...1,
        text: "show live blocks by class, allocation stack and size in a process or core file, and what has grown",
        flags: [
            Flag(
                name: "--format", value: .choice(["text", "json", "html"]),
                text: "output format: text (default), json (one object), or html (a page with pictures)"),
            Flag(name: "--limit", value: .required("N"), text: "show at most N classes and stacks (default 20)"),
            Flag(name: "--save", value: .required("FILE"), text: "also save all classes and stacks, for --since"),
            Flag(
                name: "--since", value: .required("FILE"),
                text: "show what has grown since another look was saved in FILE"),
            .full, .symbols,
        ],
        run: { try HeapCommand($0).run() })
}
