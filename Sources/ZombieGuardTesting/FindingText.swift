// What a finding looks like in the message of a failed test.

import Glibc
import Testing
import ZombieGuardCore

extension Finding {
    /// Frames of each stack that a message shows.
    private static let framesShown = 8

    /// Kind, sentence and stacks, the stacks as far as they are the program's own.
    var message: String {
        var text = "\(visible(kind.rawValue)): \(sentence)"
        let found = isNoticedLate ? [] : stacks.access
        for (title, stack) in [
            (kind == .stall ? "busy in" : "touched", found), ("freed", stacks.free), ("allocated", stacks.alloc),
        ] {
            let frames = Self.own(stack)
            if frames.isEmpty { continue }
            text += "\n\(title):"
            for frame in frames.prefix(Self.framesShown) { text += "\n    " + frame.summary }
            if frames.count > Self.framesShown { text += "\n    …" }
        }
        if let stall, stall.sampled.count > 1 {
            text += "\nwhat it did in \(stall.samples) samples:"
            for line in stall.shortened(Self.own).tree { text += "\n    " + line }
        }
        return text
    }

    /// The complete report, as `zguard report` prints it.
    var report: String { TextRenderer().render(self) }

    /// Where the program's own code touched the zombie; nil where it is not known.
    var origin: SourceLocation? {
        // A late write is noticed long after it was made: the access stack is that of the check.
        if isNoticedLate { return nil }
        return stacks.access.lazy.compactMap(\.sourceLocation).first
    }

    /// Where the program's own code freed the block.
    var freeOrigin: SourceLocation? { stacks.free.lazy.compactMap(\.sourceLocation).first }

    // The frames that a reader wants to see: those in source files, without what runs the tests and this library. All,
    // where no file is known.
    private static func own(_ stack: [Frame]) -> [Frame] {
        let own = stack.filter { $0.isInSource }
        return own.isEmpty ? stack : own
    }
}

extension Finding.Frame {
    // Where this library's own files are; expectations call the code of tests, so they stand in many stacks.
    private static let ownDirectory = String(#filePath.prefix(through: #filePath.lastIndex(of: "/")!))

    // What macros become, and what the package manager writes to run tests.
    private static let generated = ["/swift-generated-sources/", ".derived/"]

    /// Whether the frame is in a file that somebody has written, and not in one of ours.
    fileprivate var isInSource: Bool {
        guard !isLibraryCode, let file, let line, line > 0, file.hasPrefix("/") else { return false }
        return !file.hasPrefix(Self.ownDirectory) && !Self.generated.contains { file.contains($0) }
    }

    fileprivate var sourceLocation: SourceLocation? {
        guard isInSource, let file, let line else { return nil }
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
