// Gives the frames of findings their names, and findings what can be told from names.

/// Names frames from the files that their modules point to. Files are opened once. Not for several threads at once.
public final class Symbolicator {
    /// Why the frames of a module have no names, or not all that they could have. Texts are safe to print.
    public private(set) var notes: [String] = []

    private let sources: SymbolSources
    private lazy var server = DebugServer(sources.patience)
    private var modules: [String: ModuleSymbols?] = [:]
    private var noted: Set<String> = []
    private var names: [String: String] = [:]
    /// Of what is being named, where that is no finding, which says it itself.
    package var author = Author.own

    private static let mostMissing = 3
    // Reports may name any number of modules and functions: what is kept of them is bounded.
    private static let mostModules = 256
    private static let mostNames = 1 << 16
    private static let mostNotes = 100

    /// Makes a symbolicator; files are opened when a finding needs them.
    ///
    /// - Parameter sources: where the files of symbols are.
    public init(sources: SymbolSources = SymbolSources()) { self.sources = sources }

    /// Makes a raw finding a finished one: names for its frames, inlined functions as frames of their own, class, member
    /// and access where names tell them, and a signature. What a finding has already it keeps.
    ///
    /// - Parameter finding: a finding, raw or finished.
    /// - Returns: the finding with what could be found out.
    public func symbolicate(_ finding: Finding) -> Finding {
        let other = author
        author = finding.author
        defer { author = other }
        var finding = finding
        let stacks = finding.stacks
        prepare(stacks.access + stacks.free + stacks.alloc + stacks.previous + stacks.thrown)
        prepare(finding.history.flatMap(\.stack))
        prepare(finding.crash?.threads.flatMap(\.stack) ?? [])
        prepare(finding.stall.map { $0.sampled.flatMap(\.stack) + ($0.holder?.stack ?? []) } ?? [])
        if let block = finding.block {
            let slot = finding.detail["slot"].flatMap { Int(digits: $0) }
            finding.block = finish(block, freedBy: finding.stacks.free, slot: slot, in: &finding.access)
        }
        for stack in [\Finding.Stacks.access, \.free, \.alloc, \.previous, \.thrown] {
            finding.stacks[keyPath: stack] = symbolicate(finding.stacks[keyPath: stack])
        }
        for index in finding.history.indices {
            finding.history[index].stack = symbolicate(finding.history[index].stack)
        }
        if var crash = finding.crash {
            for index in crash.threads.indices {
                crash.threads[index].stack = symbolicate(crash.threads[index].stack)
            }
            crash.message = crash.message ?? Self.message(of: finding.stacks.access, crash.signal)
            if let (place, words) = crash.message.flatMap(Self.placeAndWords) {
                crash.message = words
                finding.detail["said_at"] = place
            }
            finding.crash = crash
        }
        if var stall = finding.stall {
            for index in stall.sampled.indices {
                stall.sampled[index].stack = symbolicate(stall.sampled[index].stack)
            }
            if var holder = stall.holder {
                holder.stack = symbolicate(holder.stack)
                stall.holder = holder
            }
            finding.stall = stall
        }
        finding.refineReferenceCounting()
        nameNext(&finding)
        if finding.signature == nil { finding.signature = finding.computeSignature() }
        return finding
    }

    /// What optimised Swift code traps for, without a word: the compiler names it as a function that was inlined there. Dispatch traps without
    /// one, too, for what it has words elsewhere than on Linux; where it does so for one reason alone, the function tells it.
    private static func message(of stack: [Finding.Frame], _ signal: String) -> String? {
        guard let function = stack.first?.function else { return nil }
        if function.hasPrefix("Swift runtime failure: ") { return function }
        guard ["SIGILL", "SIGTRAP"].contains(signal) else { return nil }
        let name = function.firstRange(of: ".cold").map { String(function[..<$0.lowerBound]) } ?? function
        return wordsOfDispatch[name].map { "BUG IN CLIENT OF LIBDISPATCH: " + $0 }
    }

    private static let wordsOfDispatch = [
        "__DISPATCH_WAIT_FOR_QUEUE__": "dispatch_sync called on queue already owned by current thread",
        "dispatch_group_leave": "Unbalanced call to dispatch_group_leave()",
        "_dispatch_group_dispose": "Group object deallocated while in use",
        "_dispatch_semaphore_dispose": "Semaphore object deallocated while in use",
    ]

    /// Where Swift's own words say that they come from: "Shop/Cart.swift:12" and "Fatal error: out of cheese".
    private static func placeAndWords(_ message: String) -> (place: String, words: String)? {
        for kind in ["Fatal error", "Assertion failed", "Precondition failed"] {
            guard let begin = message.firstRange(of: ": " + kind), !message[..<begin.lowerBound].contains("\n") else {
                continue
            }
            return (
                String(message[..<begin.lowerBound]), String(message[message.index(begin.lowerBound, offsetBy: 2)...])
            )
        }
        return nil
    }

    /// Names frames; a frame in whose place functions were inlined becomes several.
    package func symbolicate(_ stack: [Finding.Frame]) -> [Finding.Frame] {
        stack.flatMap { frame -> [Finding.Frame] in
            guard frame.isRaw, let offset = frame.offset, let symbols = symbols(of: frame) else { return [frame] }
            let calls = symbols.calls(at: offset)
            noteMissing(symbols, frame)
            return calls.map { call in
                var named = frame
                named.function = call.symbol.map(name)
                named.file = call.location?.file
                named.line = call.location?.line
                named.column = call.location?.column
                named.inlined = call.isInlined
                return named
            }
        }
    }

    /// What stacks show for a symbol. Taking a long name apart takes as long as finding it.
    private func name(_ symbol: String) -> String {
        if let known = names[symbol] { return known }
        let name = readableName(symbol)
        if names.count >= Self.mostNames { names = [:] }
        names[symbol] = name
        return name
    }

    /// Looks the addresses of each module up together.
    private func prepare(_ frames: [Finding.Frame]) {
        var offsets: [ObjectIdentifier: (symbols: ModuleSymbols, offsets: [Address])] = [:]
        for frame in frames where frame.isRaw {
            guard let offset = frame.offset, let symbols = symbols(of: frame) else { continue }
            offsets[ObjectIdentifier(symbols), default: (symbols, [])].offsets.append(offset)
        }
        for entry in offsets.values { entry.symbols.prepare(entry.offsets) }
    }

    /// The symbols of the module that a frame lies in; nil where there are none to be had.
    func symbols(of frame: Finding.Frame) -> ModuleSymbols? {
        guard let path = frame.module else { return nil }
        // Who may not read a file has other symbols than who may.
        let key = path + "\0" + (frame.buildID ?? "") + "\0" + (author.text ?? "")
        if let known = modules[key] { return known }
        let symbols = VDSO.isName(path) ? kernelSymbols(path, frame.buildID) : fileSymbols(path, frame.buildID)
        if modules.count >= Self.mostModules { modules = [:] }
        modules[key] = .some(symbols)
        return symbols
    }

    private func fileSymbols(_ path: String, _ buildID: String?) -> ModuleSymbols? {
        // Other things that are no files, such as [heap], have no names to look for.
        guard path.contains("/") else { return nil }
        defer {
            if server.isGivenUp { note("the servers in DEBUGINFOD_URLS do not answer and are not asked again") }
        }
        do throws(ModuleSymbols.Failure) {
            return try ModuleSymbols(path: path, buildID: buildID, sources: sources, server: server, author: author)
        } catch {
            note("no names for '\(visible(path))': \(reason(error))")
            return nil
        }
    }

    private func kernelSymbols(_ path: String, _ buildID: String?) -> ModuleSymbols? {
        // Without a build-id, that of another kernel could not be told from ours.
        guard let buildID, let image = VDSO.image() else { return nil }
        guard image.buildID == buildID else {
            note("no names for '\(visible(path))': it is another kernel's")
            return nil
        }
        let files = SymbolFiles(module: path, buildID: buildID, sources: sources)
        return ModuleSymbols(file: image, debugFile: image, files: files)
    }

    // MARK: Notes

    private func note(_ text: String) {
        if notes.count > Self.mostNotes || !noted.insert(text).inserted { return }
        notes.append(notes.count < Self.mostNotes ? text : "no names for further modules, which are not listed")
    }

    private func noteMissing(_ symbols: ModuleSymbols, _ frame: Finding.Frame) {
        for name in symbols.missing.prefix(Self.mostMissing) {
            note("not all names for '\(visible(frame.module ?? ""))': '\(visible(name))' is missing or another build")
        }
    }

    private func reason(_ failure: ModuleSymbols.Failure) -> String {
        switch failure {
        case .missing(let error): "\(error)"
        case .otherBuild: "the file is another build than the one that ran"
        case .unreadable: "not a readable ELF file"
        }
    }
}

extension Finding.Frame {
    fileprivate var isRaw: Bool { function == nil && file == nil }
}
