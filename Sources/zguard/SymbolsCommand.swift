// zguard symbols: stores executables and debug files beside findings, and adds the symbol names to the findings.

import Glibc
import ZombieGuard
import ZombieGuardFleet

struct SymbolsCommand {
    private enum Verb: String, CaseIterable {
        case upload, list, apply, remove
    }

    private let verb: Verb
    private let address: FleetAddress
    private let store: SymbolStore
    /// Files to upload, or build-ids.
    private let words: [String]
    private let sources: SymbolSources
    private let isJSON: Bool
    /// The server to which files are sent; nil: the store is opened here.
    private let sender: SymbolSender?

    static let actions = Verb.allCases.map(\.rawValue).joined(separator: "|")

    init(_ arguments: Arguments) throws(Failure) {
        let word = arguments.operands[0]
        guard let verb = Verb(rawValue: word) else {
            let nearest = nearestName(to: word, among: Verb.allCases.map(\.rawValue))
            throw .usage(
                "unknown action '\(visible(word))'",
                hint: nearest.map { "did you mean '\($0)'?" }
                    ?? "one of \(Verb.allCases.map(\.rawValue).joined(separator: ", "))")
        }
        var rest = Array(arguments.operands.dropFirst())
        if verb == .upload {
            guard let place = arguments.value("--to") else {
                throw .usage(
                    "'zguard symbols upload' needs '--to'", hint: "--to DIR|sqlite:FILE|postgresql://…|https://…")
            }
            if rest.isEmpty { throw .usage("'zguard symbols upload' needs a file or a directory") }
            if let server = try? FleetAddress(place), server.isWeb {
                address = server
            } else {
                address = try Arguments.store(place, to: "upload symbols to", otherwise: "keeps no symbols")
            }
        } else {
            guard !rest.isEmpty else { throw .usage("'zguard symbols \(verb.rawValue)' needs a store") }
            address = try Arguments.store(rest.removeFirst(), to: verb.rawValue, otherwise: "keeps no symbols")
            if arguments.has("--to") { throw .usage("option '--to' is for 'zguard symbols upload'") }
        }
        if verb == .remove, rest.isEmpty { throw .usage("'remove' needs a build-id", hint: "'list' prints them") }
        if [.list, .apply].contains(verb), let more = rest.first {
            throw .usage("unexpected operand '\(visible(more))'")
        }
        if verb != .list, arguments.has("--format") { throw .usage("option '--format' is for 'zguard symbols list'") }
        if verb != .apply, arguments.has("--symbols") {
            throw .usage("option '--symbols' is for 'zguard symbols apply'")
        }
        if arguments.has("--token-file"), !address.isWeb {
            throw .usage("option '--token-file' is for 'zguard symbols upload --to https://…'")
        }
        if address.isWeb, arguments.has("--tenant") {
            throw .usage("the server knows the tenant by the token", hint: "…?tenant=TEXT chooses one of several")
        }
        sender = address.isWeb ? SymbolSender(place: address, tokenFile: arguments.value("--token-file")) : nil
        self.verb = verb
        words = rest
        store = SymbolStore(address, tenant: arguments.value("--tenant"))
        sources = try ReportOptions(arguments).symbols
        isJSON = arguments.value("--format") == "json"
    }

    func run() throws -> Int32 {
        do throws(FleetError) {
            switch verb {
            case .upload: return try upload()
            case .list: try list()
            case .apply: try apply()
            case .remove: return try remove()
            }
        } catch {
            throw Failure("\(error)", hint: error.hint)
        }
        return ExitStatus.success
    }

    // MARK: Upload

    private func upload() throws(FleetError) -> Int32 {
        var status = ExitStatus.success
        var builds: Set<String> = []
        var added = 0
        for word in words {
            let files = SymbolUpload.files(below: word)
            var useful = 0
            for path in files ?? [word] {
                do throws(SymbolUpload.Refusal) {
                    let file = try SymbolUpload(path)
                    useful += 1
                    builds.insert(file.buildID)
                    if try add(file) { added += 1 }
                } catch {
                    // Skip files of a directory that are not ELF files with a build-id and symbols.
                    if files != nil, error.isUseless { continue }
                    Output.error("zguard: error: cannot upload '\(visible(path))': \(error.reason)\n")
                    status = ExitStatus.failure
                }
            }
            if files != nil, useful == 0 {
                Output.error("zguard: error: there is no file with a build-id and symbols below '\(visible(word))'\n")
                status = ExitStatus.failure
            }
        }
        if builds.isEmpty { return status }
        if sender != nil {
            if added == 0 { return status }
            Output.out("\(counted(added, "file")) sent to \(visible(address.name)); the server names findings next\n")
            return status
        }
        let there = builds.count == 1 ? "1 build" : "\(builds.count) builds"
        Output.out("\(counted(added, "file")) of \(there) uploaded to \(visible(address.name))\n")
        var result = try store.apply(builds: builds.sorted())
        // Do not warn about modules that were not uploaded.
        result.notes = []
        say(result)
        return status
    }

    private func add(_ file: SymbolUpload) throws(SymbolUpload.Refusal) -> Bool {
        do throws(FleetError) {
            if let sender {
                try sender.send(file)
                Output.out("\(visible(file.buildID)) sent: \(visible(file.path))\n")
                return true
            }
            let (addition, entry) = try store.add(file)
            let words = addition == .added ? "uploaded" : "is there already:"
            Output.out("\(visible(entry.buildID)) \(words) \(visible(file.path)) (\(Self.description(entry)))\n")
            return addition == .added
        } catch {
            throw SymbolUpload.Refusal(reason: "\(error)", isUseless: false)
        }
    }

    private static func description(_ entry: SymbolStore.Entry) -> String {
        let contents = entry.hasDebugInformation ? "debug information" : "symbol table"
        return "\(byteText(UInt64(max(0, entry.size)))), \(contents)"
    }

    // MARK: Apply

    private func apply() throws(FleetError) {
        if !address.isDatabase { try fetch() }
        say(try store.apply(sources: sources))
    }

    /// Copies files from the directories given with `--symbols` to the store: those that the store's findings need.
    private func fetch() throws(FleetError) {
        let missing = try store.missingBuilds()
        if missing.isEmpty { return }
        for path in sources.directories.flatMap({ SymbolUpload.files(below: $0) ?? [] }) {
            guard let file = try? SymbolUpload(path), missing.contains(file.buildID) else { continue }
            do throws(SymbolUpload.Refusal) { _ = try add(file) } catch { throw FleetError(failure: error.reason) }
        }
    }

    private func say(_ result: SymbolStore.Application) {
        for note in result.notes { Output.warn(note) }
        if !address.isDatabase {
            Output.out("findings in a directory are named whenever they are read\n")
            return
        }
        let joined = "\(counted(result.groupsBefore, "group")) became \(result.groupsAfter)"
        Output.out(
            result.findings == 0
                ? "no finding has got names\n"
                : "\(counted(result.findings, "finding")) \(result.findings == 1 ? "has" : "have") got names: \(joined)\n"
        )
        for (signature, parts) in result.apart.sorted(by: { $0.key < $1.key }).prefix(Self.mostApart) {
            Output.out("\(visible(signature)) was several bugs: \(parts.map { visible($0) }.joined(separator: ", "))\n")
        }
    }

    private static let mostApart = 20

    // MARK: List and remove

    private func list() throws(FleetError) {
        let entries = try store.entries()
        if isJSON {
            for entry in entries {
                let json = JSONText.object([
                    ("build_id", .string(entry.buildID)), ("kind", .string(entry.kind)), ("name", .string(entry.name)),
                    ("size", .integer(entry.size)), ("debug_information", .bool(entry.hasDebugInformation)),
                    ("time", .string(entry.time.description)),
                ])
                Output.out(json.line + "\n")
            }
            return
        }
        let rows = entries.map { entry in
            [
                visible(entry.buildID), visible(entry.name), byteText(UInt64(max(0, entry.size))),
                entry.hasDebugInformation ? "debug information" : "symbol table", entry.time.description,
            ]
        }
        let header = ["build-id", "file", "size", "contents", "uploaded"]
        Output.out(rows.isEmpty ? "no symbols\n" : table([header] + rows, rightAligned: [2]))
    }

    private func remove() throws(FleetError) -> Int32 {
        let entries = try store.entries()
        var status = ExitStatus.success
        for word in words {
            let some = entries.filter { $0.buildID == word }
            if some.isEmpty {
                Output.error("zguard: error: there are no symbols of the build-id '\(visible(word))'\n")
                status = ExitStatus.failure
                continue
            }
            try store.remove(some)
            Output.out("\(visible(word)): \(counted(some.count, "file")) removed\n")
        }
        return status
    }
}

extension SymbolsCommand {
    static let command = Command(
        name: "symbols", operands: "\(actions) FILE-or-STORE…", operandCount: 1...Int.max,
        text:
            "keep executables and debug files in a store, and name findings of stripped builds there: upload FILE… --to STORE (files, or directories with files of any name), list STORE, apply STORE, remove STORE BUILD-ID…",
        flags: [
            Flag(
                name: "--to", value: .required("STORE"),
                text: "upload: the store, or https://HOST/api/symbols of 'zguard serve'"),
            Flag(
                name: "--token-file", value: .required("FILE"),
                text: "upload to https://…: file with the token, which others may not read"),
            Flag(
                name: "--tenant", value: .required("TEXT"), text: "tenant whose symbols they are (default: default)"),
            .objectFormat, .symbols,
        ], run: { try SymbolsCommand($0).run() })
}
