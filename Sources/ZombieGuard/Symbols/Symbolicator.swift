// Symbolicates findings: names their frames, and derives class, member and access from the names.

/// Names frames from the executables and debug files of their modules. Files are opened once. Not thread-safe.
public final class Symbolicator {
    /// Reasons why frames of a module have no names or incomplete names. Safe to print on a terminal.
    public private(set) var notes: [String] = []

    private let sources: SymbolSources
    private lazy var server = DebugServer(sources.patience)
    private var modules: [String: ModuleSymbols?] = [:]
    private var last: (path: String, buildID: String?, author: Author, symbols: ModuleSymbols?)?
    private var noted: Set<String> = []
    private var names: [String: String] = [:]
    /// Author of frames that do not belong to a finding. A finding has its own author.
    package var author = Author.own
    /// Whether frames without a build-id stay without names. Their module's path may be that of another build.
    package var needsBuildIDs = false
    private var providers: [any SymbolProvider] = []

    private static let mostMissing = 3
    // Cache limits: an untrusted report may name any number of modules and functions.
    private static let mostModules = 256
    private static let mostNames = 1 << 16
    private static let mostNotes = 100

    /// Creates a symbolicator. Files are opened when a finding needs them.
    ///
    /// - Parameter sources: where to look for symbols.
    public init(sources: SymbolSources = SymbolSources()) { self.sources = sources }

    /// Adds a source of files that are found by build-id.
    package func add(_ provider: any SymbolProvider) {
        providers.append(provider)
        forgetModules()
    }

    /// Completes a raw finding: names its frames, expands inlined calls to frames of their own, fills in class, member
    /// and access if the names reveal them, and computes the signature. Values that are already set stay.
    ///
    /// - Parameter finding: a raw or finished finding.
    /// - Returns: the finding with everything that could be resolved.
    public func symbolicate(_ finding: Finding) -> Finding {
        let named = symbolicated(finding)
        let exceeded = providers.filter(\.budget.wasExceeded)
        if exceeded.isEmpty { return named }
        // Files of earlier findings use up the budget: close them and retry.
        for provider in exceeded { provider.budget.wasExceeded = false }
        forgetModules()
        return symbolicated(finding)
    }

    /// Decompressed bytes of the providers' files.
    package var decompressedBytes: UInt64 { providers.reduce(0) { $0 + $1.budget.used } }

    private func forgetModules() { (modules, last) = ([:], nil) }

    private func symbolicated(_ finding: Finding) -> Finding {
        let other = author
        author = finding.author
        defer { author = other }
        var finding = finding
        if finding.signature != nil { finding.addSignature() }
        let stacks = finding.stacks
        prepare(stacks.access + stacks.free + stacks.alloc + stacks.previous + stacks.thrown)
        prepare(finding.history.flatMap(\.stack))
        prepare(finding.crash?.threads.flatMap(\.stack) ?? [])
        prepare(
            finding.stall.map { $0.sampled.flatMap(\.stack) + ($0.holder?.stack ?? []) + $0.waits.flatMap(\.stack) }
                ?? [])
        prepare(finding.leak?.cycle.flatMap { $0.alloc + ($0.code.map { [$0] } ?? []) } ?? [])
        prepare(finding.holders?.flatMap(\.code) ?? [])
        if let block = finding.block {
            let slot = finding.detail["slot"].flatMap { Int(digits: $0) }
            finding.block = finish(block, freedBy: finding.stacks.free, slot: slot, in: &finding.access)
        }
        if let (place, words) = finding.crash?.message.flatMap(Self.placeAndWords) {
            finding.crash?.message = words
            finding.detail["said_at"] = place
        }
        if finding.crash != nil, finding.detail["raised_in"] == nil, let place = finding.detail["said_at"] {
            finding.stacks.access = symbolicate(finding.stacks.access, saidAt: place)
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
            for index in stall.waits.indices { stall.waits[index].stack = symbolicate(stall.waits[index].stack) }
            finding.stall = stall
        }
        if var leak = finding.leak {
            for index in leak.cycle.indices { symbolicate(&leak.cycle[index]) }
            finding.leak = leak
        }
        if finding.holders != nil { nameHolders(of: &finding) }
        finding.refineReferenceCounting()
        resolvePredictedUse(&finding)
        if finding.signature == nil {
            finding.addSignature()
        } else if finding.stacks != stacks {
            // Some names were unknown when the finding was signed, and are known now. The former signatures stay, so
            // that reports without the names still belong to the same bug.
            finding.renewSignature()
        }
        return finding
    }

    /// The reason of a trap that printed no message. In optimized Swift code, the compiler encodes the reason as the
    /// name of an inlined function. libdispatch on Linux traps without the message that it prints on other systems; if
    /// a function can trap for one reason only, the function name tells the reason.
    private static func message(of stack: [Finding.Frame], _ signal: String) -> String? {
        guard let first = stack.first, let function = first.function else { return nil }
        if first.isReasonOfTrap { return function }
        guard ["SIGILL", "SIGTRAP"].contains(signal) else { return nil }
        // Several assertions share this failing function; its caller tells which assertion failed.
        let deciding = function == "_dispatch_assert_queue_fail" ? stack.dropFirst().first?.function ?? "" : function
        let name = deciding.firstRange(of: ".cold").map { String(deciding[..<$0.lowerBound]) } ?? deciding
        return dispatchMessages[name].map { "BUG IN CLIENT OF LIBDISPATCH: " + $0 }
    }

    private static let dispatchMessages = [
        "__DISPATCH_WAIT_FOR_QUEUE__": "dispatch_sync called on queue already owned by current thread",
        "dispatch_assert_queue": "Block was expected to execute on queue",
        "dispatch_assert_queue_not": "Block was not expected to execute on queue",
        "dispatch_group_leave": "Unbalanced call to dispatch_group_leave()",
        "_dispatch_group_dispose": "Group object deallocated while in use",
        "_dispatch_semaphore_dispose": "Semaphore object deallocated while in use",
    ]

    /// Splits a message of the Swift runtime into place and text: "Shop/Cart.swift:12" and "Fatal error: out of
    /// cheese".
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

    private func symbolicate(_ step: inout Finding.Leak.Step) {
        step.alloc = symbolicate(step.alloc)
        step.code = step.code.map { closure($0) }
        if let symbol = step.classSymbol, step.className == nil { step.className = CxxName.className(typeinfo: symbol) }
        step.classSymbol = nil
    }

    // Names the code of a closure. A closure value usually points to a compiler-generated forwarder (symbol …TA), which
    // has no line: use the place of the closure itself, if it has a symbol.
    private func closure(_ frame: Finding.Frame) -> Finding.Frame {
        var named = symbolicate([frame]).last ?? frame
        guard let offset = frame.offset, let symbols = symbols(of: frame) else { return named }
        func take(_ place: Finding.Frame) {
            (named.function, named.file) = (place.function, place.file)
            (named.line, named.column) = (place.line, place.column)
        }
        var own = frame
        if let symbol = symbols.symbols(at: offset).first(where: { $0.hasPrefix("$s") && $0.hasSuffix("TA") }),
            let target = symbols.address(of: String(symbol.dropLast(2)))
        {
            own.offset = target
            if let place = symbolicate([own]).last, place.function != nil { take(place) }
        }
        // Search the next instructions as well: optimized code may have no line at its first instruction, and the
        // closure may be inlined into the forwarder.
        let start = own.offset ?? offset
        for distance in stride(from: 0 as UInt64, to: Self.closurePrologue, by: 4) where !named.hasLine {
            own.offset = Address(start.rawValue &+ distance)
            // Stop at the next function: a forwarder may be shorter than the searched range.
            if distance > 0, !symbols.symbols(at: own.offset!).isEmpty { break }
            if let place = symbolicate([own]).last(where: { $0.hasLine && $0.function?.hasPrefix("closure #") ?? false }
            ) {
                take(place)
            }
        }
        return named
    }

    /// Bytes at the start of a closure's code that are searched for a line.
    private static let closurePrologue: UInt64 = 128

    /// If the code of the innermost frame with debug information has no line, names the frame by the place in the
    /// program's last message, such as "Shop/Cart.swift:12".
    private func symbolicate(_ stack: [Finding.Frame], saidAt place: String) -> [Finding.Frame] {
        guard let colon = place.lastIndex(of: ":"), let line = Int(digits: place[place.index(after: colon)...])
        else { return stack }
        let file = place[..<colon].split(separator: "/").last.map(String.init) ?? ""
        for (index, frame) in stack.enumerated() where frame.isRaw {
            guard let offset = frame.offset, let symbols = symbols(of: frame) else { continue }
            guard let address = symbols.address(ofLine: line, in: file, near: offset) else {
                if symbols.calls(at: offset).contains(where: { $0.location != nil }) { break }
                continue
            }
            var said = frame
            said.offset = address
            let calls = symbolicate([said]).map { call in
                var named = call
                named.offset = frame.offset
                return named
            }
            return stack[..<index] + calls + stack[(index + 1)...]
        }
        return stack
    }

    /// Names frames. A frame with inlined calls becomes several.
    package func symbolicate(_ stack: [Finding.Frame]) -> [Finding.Frame] {
        var isInlinedBefore = false
        return stack.flatMap { frame -> [Finding.Frame] in
            let isOpen = frame.isRaw || frame.isOfTable && !isInlinedBefore && !providers.isEmpty
            isInlinedBefore = frame.inlined
            guard isOpen, let offset = frame.offset, let symbols = symbols(of: frame) else { return [frame] }
            let calls = symbols.calls(at: offset)
            noteMissing(symbols, frame)
            if !frame.isRaw, !calls.contains(where: { $0.location != nil }) { return [frame] }
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

    /// The readable name of a symbol. Cached, because demangling a long name takes as long as looking up the symbol.
    private func name(_ symbol: String) -> String {
        if let known = names[symbol] { return known }
        let name = readableName(symbol)
        if names.count >= Self.mostNames { names = [:] }
        names[symbol] = name
        return name
    }

    /// Looks up the addresses of each module at once.
    private func prepare(_ frames: [Finding.Frame]) {
        var offsets: [ObjectIdentifier: (symbols: ModuleSymbols, offsets: [Address])] = [:]
        for frame in frames where frame.isRaw || frame.isOfTable && !providers.isEmpty {
            guard let offset = frame.offset, let symbols = symbols(of: frame) else { continue }
            offsets[ObjectIdentifier(symbols), default: (symbols, [])].offsets.append(offset)
        }
        for entry in offsets.values { entry.symbols.prepare(entry.offsets) }
    }

    /// The symbols of a frame's module; nil if none are available.
    func symbols(of frame: Finding.Frame) -> ModuleSymbols? {
        guard let path = frame.module, frame.buildID != nil || !needsBuildIDs else { return nil }
        // Most frames are in the module of the frame before.
        if let last, last.path == path, last.buildID == frame.buildID, last.author == author { return last.symbols }
        let symbols = moduleSymbols(path, frame)
        last = (path, frame.buildID, author, symbols)
        return symbols
    }

    private func moduleSymbols(_ path: String, _ frame: Finding.Frame) -> ModuleSymbols? {
        // The author is part of the key, because file permissions decide which symbols an author may see.
        let key = path + "\0" + (frame.buildID ?? "") + "\0" + (author.text ?? "")
        if let known = modules[key] { return known }
        let symbols = VDSO.isName(path) ? kernelSymbols(path, frame.buildID) : fileSymbols(path, frame.buildID)
        if modules.count >= Self.mostModules { modules = [:] }
        modules[key] = .some(symbols)
        return symbols
    }

    private func fileSymbols(_ path: String, _ buildID: String?) -> ModuleSymbols? {
        // Pseudo-modules such as [heap] have no symbols.
        guard path.contains("/") else { return nil }
        defer {
            if server.hasTimedOut { note("the servers in DEBUGINFOD_URLS do not answer and are not asked again") }
        }
        do throws(ModuleSymbols.Failure) {
            return try ModuleSymbols(
                path: path, buildID: buildID, sources: sources, server: server, providers: providers, author: author)
        } catch {
            note("no names for '\(visible(path))': \(reason(error))")
            return nil
        }
    }

    private func kernelSymbols(_ path: String, _ buildID: String?) -> ModuleSymbols? {
        // Without a build-id, the vDSO of another kernel could be mistaken for this one's.
        guard let buildID, let image = VDSO.image() else { return nil }
        guard image.buildID == buildID else {
            note("no names for '\(visible(path))': the report's vDSO is from another kernel build")
            return nil
        }
        let files = SymbolFiles(module: path, buildID: buildID, sources: sources)
        return ModuleSymbols(file: image, debugFile: image, files: files)
    }

    // MARK: Notes

    private func note(_ text: String) {
        if notes.count > Self.mostNotes || !noted.insert(text).inserted { return }
        notes.append(notes.count < Self.mostNotes ? text : "further modules without names are not listed")
    }

    private func noteMissing(_ symbols: ModuleSymbols, _ frame: Finding.Frame) {
        for name in symbols.missing.prefix(Self.mostMissing) {
            note(
                "not all names for '\(visible(frame.module ?? ""))': '\(visible(name))' is missing or from another build"
            )
        }
    }

    private func reason(_ failure: ModuleSymbols.Failure) -> String {
        switch failure {
        case .missing(let error): "\(error)"
        case .otherBuild: "the file is from another build than the one that ran"
        case .unreadable: "not a readable ELF file"
        }
    }
}

extension Finding.Frame {
    fileprivate var isRaw: Bool { function == nil && file == nil }
    /// Whether the name of the frame is from a symbol table only, such as the table of exported functions, which
    /// stripped libraries keep. Debug information that is found later adds lines and inlined calls.
    package var isOfTable: Bool { function != nil && file == nil && !inlined && buildID != nil }
}
