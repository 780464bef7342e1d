// Sources of executables and debug files that are found by build-id alone, such as those uploaded to a store.

import Glibc

/// The kind of a file with symbols: with or without code.
package enum SymbolFileKind: String, CaseIterable, Sendable {
    /// The code and data of an executable or library, with symbols or debug information.
    case executable
    /// Symbols or debug information only.
    case debug
}

/// Limits the decompressed bytes of a provider's files. For one thread.
package final class DecompressionBudget {
    /// Decompressed bytes in memory.
    private(set) var used: UInt64 = 0
    /// Whether a section was left out since this flag was last reset.
    var wasExceeded = false

    /// Limit of ``used``.
    package var most = UInt64.max

    package init() {}

    func take(_ size: UInt64) -> Bool {
        let isLeft = size <= most - used
        if isLeft { used += size } else { wasExceeded = true }
        return isLeft
    }

    func release(_ size: UInt64) { used -= size }
}

/// Finds files by build-id. Used by one thread at a time.
package protocol SymbolProvider: AnyObject {
    var budget: DecompressionBudget { get }
    /// Opens a file of a build; nil if there is none. The file need not be well-formed.
    func open(_ kind: SymbolFileKind, buildID: String) -> Descriptor?
}

/// Properties of a file that is to be stored as a source of symbols, read from its headers.
package struct SymbolFile: Hashable, Sendable {
    package enum Problem: Error, Hashable, Sendable, CustomStringConvertible {
        case missing(SystemError)
        case notELF
        case damaged
        case noBuildID
        case noSymbols

        package var description: String {
            switch self {
            case .missing(let error): "\(error)"
            case .notELF: "it is not a 64-bit little-endian ELF file"
            case .damaged: "it is damaged or cut off: sections lie beyond its end"
            case .noBuildID: "it has no build-id (link with -Wl,--build-id)"
            case .noSymbols: "it has neither a symbol table nor debug information"
            }
        }
    }

    /// The build-id in lower-case hexadecimal digits.
    package let buildID: String
    package let kind: SymbolFileKind
    /// Whether the file has DWARF; otherwise it has only a symbol table.
    package let hasDebugInformation: Bool
    /// Total size in bytes of the compressed sections after decompression, according to their headers.
    package let unpackedBytes: UInt64

    /// Reads the headers of a file.
    ///
    /// - Parameters:
    ///   - file: a file open for reading.
    ///   - path: its path.
    /// - Throws: ``Problem`` if the file cannot serve as a source of symbols.
    package init(_ file: Descriptor, path: String) throws(Problem) {
        let elf: ELFFile
        do throws(ELFFile.Failure) { elf = try ELFFile(file: file, path: path) } catch {
            switch error {
            case .missing(let error): throw .missing(error)
            case .unreadable: throw .notELF
            }
        }
        if !elf.isWhole { throw .damaged }
        guard let id = elf.buildID, SymbolFiles.isBuildID(id) else { throw .noBuildID }
        let hasTable = elf.sections.contains { section in
            section.type != SHT_NOBITS && section.size > 0
                && (section.type == SHT_SYMTAB || section.name == ".gnu_debugdata")
        }
        guard hasTable || elf.hasDebugInformation else { throw .noSymbols }
        buildID = id
        // In a debug file, the sections of the code have a size but no contents.
        let hasCode = elf.sections.contains { $0.isLoaded && $0.flags & UInt64(SHF_EXECINSTR) != 0 }
        kind = hasCode ? .executable : .debug
        hasDebugInformation = elf.hasDebugInformation
        unpackedBytes = elf.unpackedBytes
    }
}

/// Opens files of builds from several providers, for one module.
struct ProvidedFiles {
    let providers: [any SymbolProvider]
    /// Path of the module. Opened files get this path, because companion files are searched for beside the module.
    let path: String

    /// The first file of a build that has the build-id and that `isWanted` accepts.
    func file(_ kind: SymbolFileKind, _ buildID: String?, where isWanted: (ELFFile) -> Bool = { _ in true }) -> ELFFile?
    {
        guard let buildID, SymbolFiles.isBuildID(buildID) else { return nil }
        for provider in providers {
            guard let file = provider.open(kind, buildID: buildID),
                let elf = try? ELFFile(file: file, path: path, budget: provider.budget), elf.buildID == buildID,
                isWanted(elf)
            else { continue }
            return elf
        }
        return nil
    }
}
