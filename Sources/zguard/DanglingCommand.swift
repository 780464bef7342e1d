// zguard dangling: finds live memory that points to freed blocks, before the pointers are used.

import Glibc
import ZombieGuard
import ZombieGuardGraph

struct DanglingCommand {
    private let arguments: Arguments
    private let isJSON: Bool
    private let limit: Int
    private let symbols: SymbolSources

    private static let schema = "zguard.dangling/1"

    init(_ arguments: Arguments) throws(Failure) {
        self.arguments = arguments
        isJSON = arguments.value("--format") == "json"
        limit = try arguments.limit()
        symbols = try ReportOptions(arguments).symbols
    }

    func run() throws -> Int32 {
        let target = try GraphTarget(arguments)
        let search = try target.dangling()
        let symbolicator = Symbolicator(sources: symbols)
        symbolicator.author = target.author
        let shown = search.references.prefix(limit).map { symbolicator.named($0) }
        Output.out(isJSON ? json(search, shown) : text(search, shown))
        for note in search.notes + search.source.notes + symbolicator.notes { Output.warn(note) }
        return arguments.has("--fail") && !search.references.isEmpty ? ExitStatus.findings : ExitStatus.success
    }

    // MARK: Text

    private func text(_ search: DanglingSearch, _ shown: [DanglingSearch.Reference]) -> String {
        let statistics = search.source.statistics
        let references = search.references.reduce(0) { $0 + $1.count }
        let what = references == 1 ? "1 reference" : "\(groupedText(UInt64(references))) references"
        var text =
            TextRenderer.mark
            + "\(what) to freed blocks in \(visible(statistics.program)) [\(statistics.processID)], "
            + "which has \(groupedText(UInt64(search.freedBlocks))) freed blocks"
        if search.stoppedNanoseconds > 0 { text += "; stopped for \(search.stoppedNanoseconds / 1_000_000) ms" }
        text += "\n"
        for reference in shown { text += line(reference) }
        if search.references.count > shown.count {
            text += "  … and \(groupedText(UInt64(search.references.count - shown.count))) more kinds\n"
        }
        if search.words > 0 {
            text +=
                "\(groupedText(UInt64(search.words))) other words equal the address of a freed block: "
                + "in blocks without a known class, on stacks, or in mapped memory\n"
        }
        return text
    }

    private func line(_ reference: DanglingSearch.Reference) -> String {
        var target = "a freed \(reference.target.className.map { visible($0) } ?? "block")"
        target += " of \(reference.target.size) byte\(reference.target.size == 1 ? "" : "s")"
        if let origin = reference.stacks.free.origin { target += ", freed in \(origin.shortPlace)" }
        let times = reference.count == 1 ? "" : " (\(groupedText(UInt64(reference.count))) times)"
        return "  \(reference.holder.text)\(times)\n    → \(target)\n"
    }

    // MARK: JSON

    private func json(_ search: DanglingSearch, _ shown: [DanglingSearch.Reference]) -> String {
        let statistics = search.source.statistics
        return JSONText.object([
            ("schema", .string(Self.schema)), ("pid", .integer(Int64(statistics.processID))),
            ("program", .string(statistics.program)), ("time", .string(Timestamp.now.description)),
            ("freed_blocks", .integer(Int64(search.freedBlocks))), ("words", .integer(Int64(search.words))),
            ("kinds", .integer(Int64(search.references.count))),
            (
                "references",
                .array(
                    shown.map { reference in
                        .object([
                            ("holder", reference.holder.json), ("count", .integer(Int64(reference.count))),
                            (
                                "target",
                                .object([
                                    ("block", reference.target.json),
                                    (
                                        "stacks",
                                        .object([
                                            ("free", reference.stacks.free.json),
                                            ("alloc", reference.stacks.alloc.json),
                                        ])
                                    ),
                                ])
                            ),
                        ])
                    })
            ),
        ]).line + "\n"
    }
}

extension DanglingCommand {
    static let command = Command(
        name: "dangling", operands: "PID|CORE", operandCount: 1...1,
        text: "show live references to freed blocks, before they are followed, in a process or core file",
        flags: [
            .objectFormat,
            Flag(name: "--limit", value: .required("N"), text: "show at most N kinds of references (default 20)"),
            Flag(name: "--fail", text: "exit with 99 if there are any"),
            .symbols,
        ],
        run: { try DanglingCommand($0).run() })
}
