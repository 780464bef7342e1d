// Gives the frames of findings their names.

/// Names frames from the files that their modules point to. Files are opened once. Not for several threads at once.
public final class Symbolicator {
    /// Why the frames of a module have no names; one for each module. Texts are safe to print.
    public private(set) var notes: [String] = []

    private var modules: [String: ModuleSymbols?] = [:]

    public init() {}

    /// Fills in what is missing in the finding's frames, and its signature.
    public func symbolicate(_ finding: Finding) -> Finding {
        var finding = finding
        symbolicate(&finding.stacks.access)
        symbolicate(&finding.stacks.free)
        symbolicate(&finding.stacks.alloc)
        if finding.signature == nil { finding.signature = finding.computeSignature() }
        return finding
    }

    private func symbolicate(_ stack: inout [Finding.Frame]) {
        for index in stack.indices where stack[index].function == nil {
            guard let offset = stack[index].offset, let path = stack[index].module,
                let symbols = symbols(path: path, buildID: stack[index].buildID)
            else { continue }
            let place = symbols.place(of: offset)
            stack[index].function = place.function
            if stack[index].file == nil {
                stack[index].file = place.file
                stack[index].line = place.line
                stack[index].column = place.column
            }
        }
    }

    private func symbols(path: String, buildID: String?) -> ModuleSymbols? {
        // Things that are no files, such as [vdso], have no names to look for.
        guard path.hasPrefix("/") else { return nil }
        let key = path + "\0" + (buildID ?? "")
        if let known = modules[key] { return known }
        var symbols: ModuleSymbols?
        do throws(ModuleSymbols.Failure) {
            symbols = try ModuleSymbols(path: path, buildID: buildID)
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
