// Resolves addresses of one module to functions and source lines, from all files that belong to the module.

import Glibc

/// The symbols and debug information of one executable or library. Not thread-safe.
final class ModuleSymbols {
    enum Failure: Error, Hashable {
        case missing(SystemError)
        case otherBuild
        case unreadable
    }

    /// The executable or library; nil if only its debug file was found.
    let file: ELFFile?
    private let debugInfo: DebugInfo?
    private let tables: SymbolTables
    // Symbols of the separate debug file. The file's debug information takes precedence over its symbols, because the
    // compiler splits functions into parts with symbols of their own (f and f.cold).
    private let debugFileTables: SymbolTables
    private var known: [UInt64: [DebugInfo.Call]] = [:]

    /// Finds the files of a module. If `buildID` is set, files of other builds are ignored. `author` is the author of
    /// the finding that names the module: see ``SymbolFiles``. `providers` are asked before `server`.
    convenience init(
        path: String, buildID: String?, sources: SymbolSources = SymbolSources(), server: DebugServer? = nil,
        providers: [any SymbolProvider] = [], author: Author = .own
    ) throws(Failure) {
        let provided = ProvidedFiles(providers: providers, path: path)
        var files = SymbolFiles(module: path, buildID: buildID, sources: sources, author: author)
        files.provided = provided
        let file: ELFFile?
        var failure: Failure?
        do throws(Failure) {
            file = try Self.find(files)
        } catch {
            file = nil
            failure = error
        }
        if let file { files.found = file }
        var executable = file
        var debugFile = file
        if file?.hasDebugInformation != true {
            debugFile = files.debugFile(of: file)
            if debugFile == nil, let id = file?.buildID ?? buildID {
                let other = provided.file(.executable, id)
                executable = file ?? other
                debugFile =
                    provided.file(.debug, id) { $0.hasDebugInformation }
                    ?? (other?.hasDebugInformation == true ? other : nil)
                    ?? Self.ask(server, .debugInformation, id) ?? provided.file(.debug, id) ?? other
            }
        }
        if executable == nil, let buildID { executable = Self.ask(server, .executable, buildID) }
        if executable == nil, debugFile == nil, let failure { throw failure }
        if let debugFile { files.found = debugFile }
        self.init(file: executable, debugFile: debugFile, files: files)
    }

    /// Uses files that are already open. `debugFile` may be `file`.
    init(file: ELFFile?, debugFile: ELFFile?, files: SymbolFiles) {
        self.file = file
        debugInfo = debugFile.flatMap { $0.hasDebugInformation ? DebugInfo($0, files: files) : nil }
        tables = SymbolTables([file, file.flatMap(MiniDebugInfo.file)].compactMap { $0 })
        debugFileTables = SymbolTables(debugFile === file ? [] : [debugFile].compactMap { $0 })
    }

    private static func find(_ files: SymbolFiles) throws(Failure) -> ELFFile {
        var failure = Failure.missing(SystemError(number: ENOENT))
        for path in files.modulePaths {
            do throws(ELFFile.Failure) {
                let file = try files.open(path)
                // If a build-id is expected, a file without a build-id is taken for another build.
                if files.buildID == nil || file.buildID == files.buildID { return file }
                failure = .otherBuild
            } catch {
                // Prefer the error of the module's own path: the other paths are only guesses.
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

    /// Names of split debug files that were needed but not found.
    var missing: [String] { debugInfo?.missing ?? [] }

    // MARK: Questions

    /// Looks up many addresses at once, which is cheaper than one by one.
    func prepare(_ offsets: some Sequence<Address>) {
        let new = offsets.map(\.rawValue).filter { known[$0] == nil }
        if new.isEmpty { return }
        tables.prepare(new)
        debugFileTables.prepare(new)
        debugInfo?.prepare(new)
    }

    /// The functions that contain an address (a virtual address of the file), innermost first. The last one is not
    /// inlined.
    func calls(at offset: Address) -> [DebugInfo.Call] {
        if let calls = known[offset.rawValue] { return calls }
        var calls = debugInfo?.calls(at: offset.rawValue) ?? []
        if calls.isEmpty { calls = [DebugInfo.Call(symbol: nil, location: nil, isInlined: false)] }
        // If the linker folded equal functions, several symbols have this address: prefer the one that the debug
        // information names. For library-internal names such as __GI_exit, prefer the public symbol.
        let names = tables.names(holding: offset.rawValue)
        let own = calls[calls.count - 1].symbol ?? ""
        if let best = names.first, own.hasPrefix("__") || !names.contains(own) {
            calls[calls.count - 1].symbol = best
        } else if own.isEmpty, let best = debugFileTables.names(holding: offset.rawValue).first {
            calls[calls.count - 1].symbol = best
        }
        known[offset.rawValue] = calls
        return calls
    }

    /// Finds code of a source line in the function that contains `offset`, and returns the address of such code that is
    /// nearest to `offset`. Nil if `offset` has a line itself. See ``DebugInfo``.
    func address(ofLine line: Int, in file: String, near offset: Address) -> Address? {
        debugInfo?.address(ofLine: line, in: file, near: offset.rawValue).map { Address($0) }
    }

    /// The symbol whose code or data contains an address.
    func symbol(around offset: Address) -> String? {
        tables.names(holding: offset.rawValue).first ?? debugFileTables.names(holding: offset.rawValue).first
    }

    /// The thread-local variable that contains an offset in the module's thread-local data.
    func threadLocal(at offset: Address) -> String? {
        tables.threadLocal(at: offset.rawValue) ?? debugFileTables.threadLocal(at: offset.rawValue)
    }

    /// The address of a symbol.
    func address(of symbol: String) -> Address? {
        (tables.address(of: symbol) ?? debugFileTables.address(of: symbol)).map { Address($0) }
    }

    /// All symbols at an address; several if the linker folded equal functions.
    func symbols(at offset: Address) -> [String] {
        let names = tables.names(at: offset.rawValue)
        return names + debugFileTables.names(at: offset.rawValue).filter { !names.contains($0) }
    }

    /// Up to `count` bytes at an address, within one section of the file.
    func bytes(at offset: Address, count: Int) -> [UInt8] { file?.bytes(at: offset, count: count) ?? [] }
}
