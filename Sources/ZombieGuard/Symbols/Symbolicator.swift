// Gives the frames of findings their names, and findings what can be told from names.

/// Names frames from the files that their modules point to. Files are opened once. Not for several threads at once.
public final class Symbolicator {
    /// Why the frames of a module have no names; one for each module. Texts are safe to print.
    public private(set) var notes: [String] = []

    private var modules: [String: ModuleSymbols?] = [:]

    public init() {}

    /// Makes a raw finding a finished one: names for its frames, inlined functions as frames of their own, class, member
    /// and access where names tell them, and a signature. What a finding has already it keeps.
    public func symbolicate(_ finding: Finding) -> Finding {
        var finding = finding
        if let block = finding.block {
            let slot = finding.detail["slot"].flatMap { Int($0) }
            finding.block = finish(block, freedBy: finding.stacks.free, slot: slot, in: &finding.access)
        }
        for stack in [\Finding.Stacks.access, \.free, \.alloc] {
            finding.stacks[keyPath: stack] = symbolicate(finding.stacks[keyPath: stack])
        }
        finding.refineReferenceCounting()
        if finding.signature == nil { finding.signature = finding.computeSignature() }
        return finding
    }

    /// Names frames; a frame in whose place functions were inlined becomes several.
    func symbolicate(_ stack: [Finding.Frame]) -> [Finding.Frame] {
        stack.flatMap { frame -> [Finding.Frame] in
            guard frame.function == nil, frame.file == nil, let offset = frame.offset, let symbols = symbols(of: frame)
            else { return [frame] }
            return symbols.calls(at: offset).map { call in
                var named = frame
                named.function = call.symbol.map(readableName)
                named.file = call.location?.file
                named.line = call.location?.line
                named.column = call.location?.column
                named.inlined = call.isInlined
                return named
            }
        }
    }

    /// The symbols of the module that a frame lies in; nil where there are none to be had.
    func symbols(of frame: Finding.Frame) -> ModuleSymbols? {
        // Things that are no files, such as [vdso], have no names to look for.
        guard let path = frame.module, path.hasPrefix("/") else { return nil }
        let key = path + "\0" + (frame.buildID ?? "")
        if let known = modules[key] { return known }
        var symbols: ModuleSymbols?
        do throws(ModuleSymbols.Failure) {
            symbols = try ModuleSymbols(path: path, buildID: frame.buildID)
        } catch {
            notes.append(note(of: error, path: path))
        }
        modules[key] = .some(symbols)
        return symbols
    }

    private func note(of failure: ModuleSymbols.Failure, path: String) -> String {
        let reason =
            switch failure {
            case .missing(let error): "\(error)"
            case .otherBuild: "the file is another build than the one that ran"
            case .unreadable: "not a readable ELF file"
            }
        return "no names for '\(visible(path))': \(reason)"
    }
}
