// Names and lines of addresses in one module, out of all files that have something to say about it.

import Glibc

/// The names and lines of one executable or library. Not for use by several threads at once.
final class ModuleSymbols {
    enum Failure: Error, Hashable {
        case missing(SystemError)
        case otherBuild
        case unreadable
    }

    /// The executable or library; nil where only its debug information was found.
    let file: ELFFile?
    private let debugInfo: DebugInfo?
    private let tables: SymbolTables
    // Of the separate debug file. Where it has a function's debug information, that knows the name better: the compiler
    // splits functions into parts, f and f.cold.
    private let moreTables: SymbolTables
    private var known: [UInt64: [DebugInfo.Call]] = [:]

    /// Finds the files of a module. Where `buildID` is known, only files of that build count. `author` has named it.
    convenience init(
        path: String, buildID: String?, sources: SymbolSources = SymbolSources(), server: DebugServer? = nil,
        author: Author = .own
    ) throws(Failure) {
        var files = SymbolFiles(module: path, buildID: buildID, sources: sources, author: author)
        let file: ELFFile?
        var failure: Failure?
        do throws(Failure) {
            file = try Self.find(files)
        } catch {
            file = nil
            failure = error
        }
        if let file { files.found = file }
        var debugFile = file
        if file?.hasDebugInformation != true {
            debugFile = files.debugFile(of: file)
            if debugFile == nil, let id = file?.buildID ?? buildID {
                debugFile = Self.ask(server, .debugInformation, id)
            }
        }
        var executable = file
        if file == nil, let buildID { executable = Self.ask(server, .executable, buildID) }
        if executable == nil, debugFile == nil, let failure { throw failure }
        if let debugFile { files.found = debugFile }
        self.init(file: executable, debugFile: debugFile, files: files)
    }

    /// Takes files that have been found. `debugFile` may be the file itself.
    init(file: ELFFile?, debugFile: ELFFile?, files: SymbolFiles) {
        self.file = file
        debugInfo = debugFile.flatMap { $0.hasDebugInformation ? DebugInfo($0, files: files) : nil }
        tables = SymbolTables([file, file.flatMap(MiniDebugInfo.file)].compactMap { $0 })
        moreTables = SymbolTables(debugFile === file ? [] : [debugFile].compactMap { $0 })
    }

    private static func find(_ files: SymbolFiles) throws(Failure) -> ELFFile {
        var failure = Failure.missing(SystemError(number: ENOENT))
        for path in files.modulePaths {
            do throws(ELFFile.Failure) {
                let file = try files.open(path)
                // A file without a build-id is another build than one that had one.
                if files.buildID == nil || file.buildID == files.buildID { return file }
                failure = .otherBuild
            } catch {
                // What became of the module's own file says more than that the others are not there.
                guard path == files.module, failure != .otherBuild else { continue }
                switch error {
                case .missing(let error): failure = .missing(error)
                case .unreadable: failure = .unreadable
                }
            }
        }
        throw failure
    }

    private static func ask(_ server: DebugServer?, _ kind: DebugServer.Kind, _ buildID: String) -> ELFFile? {
        guard let server, SymbolFiles.isBuildID(buildID), let path = server.path(of: kind, buildID: buildID),
            let file = try? ELFFile(path: path), file.buildID == buildID
        else { return nil }
        return file
    }

    /// Names of files with split debug information that were needed and are missing.
    var missing: [String] { debugInfo?.missing ?? [] }

    // MARK: Questions

    /// Looks addresses up together, which is cheaper than one by one.
    func prepare(_ offsets: some Sequence<Address>) {
        let new = offsets.map(\.rawValue).filter { known[$0] == nil }
        if new.isEmpty { return }
        tables.prepare(new)
        moreTables.prepare(new)
        debugInfo?.prepare(new)
    }

    /// The functions that an address, as the file counts it, lies in, the innermost first; the last is the one that is
    /// not inlined.
    func calls(at offset: Address) -> [DebugInfo.Call] {
        if let calls = known[offset.rawValue] { return calls }
        var calls = debugInfo?.calls(at: offset.rawValue) ?? []
        if calls.isEmpty { calls = [DebugInfo.Call(symbol: nil, location: nil, isInlined: false)] }
        // The linker may have given several equal functions one address: the debug information knows which this is. Only of
        // the names that a library has for itself, such as __GI_exit, the one for everybody is better known.
        let names = tables.names(holding: offset.rawValue)
        let own = calls[calls.count - 1].symbol ?? ""
        if let best = names.first, own.hasPrefix("__") || !names.contains(own) {
            calls[calls.count - 1].symbol = best
        } else if own.isEmpty, let best = moreTables.names(holding: offset.rawValue).first {
            calls[calls.count - 1].symbol = best
        }
        known[offset.rawValue] = calls
        return calls
    }

    /// The symbol whose code or data holds an address.
    func symbol(around offset: Address) -> String? {
        tables.names(holding: offset.rawValue).first ?? moreTables.names(holding: offset.rawValue).first
    }

    /// Where a symbol begins.
    func address(of symbol: String) -> Address? {
        (tables.address(of: symbol) ?? moreTables.address(of: symbol)).map { Address($0) }
    }

    /// Every symbol that begins at an address; several where the linker folded equal functions.
    func symbols(at offset: Address) -> [String] {
        let names = tables.names(at: offset.rawValue)
        return names + moreTables.names(at: offset.rawValue).filter { !names.contains($0) }
    }

    /// The bytes of the file at an address, as far as one section holds them.
    func bytes(at offset: Address, count: Int) -> [UInt8] { file?.bytes(at: offset, count: count) ?? [] }
}
