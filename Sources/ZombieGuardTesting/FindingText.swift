// What a finding looks like in the message of a failed test.

import Glibc
import Testing
import ZombieGuard

extension Finding {
    /// Frames of each stack that a message shows.
    private static let framesShown = 8

    /// Kind, sentence and stacks, the stacks without what runs the tests.
    var message: String {
        var text = "\(visible(kind.rawValue)): \(sentence)"
        let found = kind == .writeAfterFree ? [] : stacks.access
        for (title, stack) in [("touched", found), ("freed", stacks.free), ("allocated", stacks.alloc)] {
            let frames = Self.withoutHarness(stack)
            if frames.isEmpty { continue }
            text += "\n\(title):"
            for frame in frames.prefix(Self.framesShown) { text += "\n    " + frame.summary }
            if frames.count > Self.framesShown { text += "\n    …" }
        }
        return text
    }

    /// The complete report, as `zguard report` prints it.
    var report: String { TextRenderer().render(self) }

    /// Where the program's own code touched the zombie; nil where it is not known.
    var origin: SourceLocation? {
        // A late write is noticed long after it was made: the access stack is that of the check.
        if kind == .writeAfterFree { return nil }
        return stacks.access.lazy.filter { !$0.isLibraryCode }.compactMap(\.sourceLocation).first
    }

    /// Where the program's own code freed the block.
    var freeOrigin: SourceLocation? {
        stacks.free.lazy.filter { !$0.isLibraryCode }.compactMap(\.sourceLocation).first
    }

    // Names of libraries that run tests and tasks: what is further out than they is the same for all tests.
    private static let harness = ["libXCTest", "libTesting", "libswift_Concurrency", "libdispatch", "libFoundation"]

    private static func withoutHarness(_ stack: [Frame]) -> [Frame] {
        let first = stack.firstIndex { !$0.isLibraryCode && $0.file != nil } ?? stack.startIndex
        let end = stack[first...].firstIndex { frame in
            harness.contains { frame.moduleName?.hasPrefix($0) ?? false }
        }
        return stack[..<(end ?? stack.endIndex)].filter { $0.line != 0 }
    }
}

extension Finding.Frame {
    fileprivate var sourceLocation: SourceLocation? {
        guard let file, file.hasPrefix("/"), let line, line > 0 else { return nil }
        let parts = file.split(separator: "/")
        guard parts.count > 1 else { return nil }
        // Directories are called like the modules whose files they hold.
        return SourceLocation(
            fileID: "\(parts[parts.count - 2])/\(parts[parts.count - 1])", filePath: file, line: line,
            column: max(1, column ?? 1))
    }

    fileprivate var summary: String {
        guard let function else { return "\(visible(moduleName ?? "?"))\(offset.map { "+\($0)" } ?? "")" }
        guard let file, let line else { return "\(visible(function))  (\(visible(moduleName ?? "?")))" }
        return "\(visible(function))  \(visible(Self.relative(file))):\(line)"
    }

    // Paths below the working directory, which is the package's where `swift test` runs, are shown from there.
    private static func relative(_ file: String) -> String {
        guard let directory = getcwd(nil, 0) else { return file }
        defer { free(directory) }
        let prefix = String(cString: directory) + "/"
        return file.hasPrefix(prefix) ? String(file.dropFirst(prefix.count)) : file
    }
}
