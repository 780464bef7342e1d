// Formats a finding as the message of a failed test.

import Glibc
import Testing
import ZombieGuardCore

extension Finding {
    /// Maximum number of frames per stack in a message.
    private static let framesShown = 8

    /// "use-after-free: method Cart.add(_:) was called on …", the first line of every report.
    var headline: String { "\(visible(kind.rawValue)): \(sentence)" }

    /// Headline, evidence, stacks, and the samples of a stall. Shows only the program's own frames of a stack, or all
    /// frames if no source file is known.
    var message: String {
        var text = headline
        if let evidence { text += "\n\(evidence)" }
        let found = isNoticedLate ? [] : stacks.access
        var shown = [(kind == .stall ? "busy in" : "touched", found), ("freed", stacks.free)]
        if let cycle = leak?.cycle, cycle.count > 1 {
            shown += cycle.map { ("\($0.type) allocated", $0.alloc) }
        } else {
            shown.append(("allocated", stacks.alloc))
        }
        text = Self.text(text, shown)
        if let stall, stall.sampled.count > 1 {
            text += "\nstacks in \(stall.samples) samples:"
            for line in stall.shortened(Self.own).tree { text += "\n    " + line }
        }
        return text
    }

    /// A headline and stacks. Shows only the program's own frames of a stack, or all frames if no source file is known.
    static func text(_ headline: String, _ stacks: [(title: String, stack: [Frame])]) -> String {
        var text = headline
        for (title, stack) in stacks {
            let frames = own(stack)
            if frames.isEmpty { continue }
            text += "\n\(title):"
            for frame in frames.prefix(framesShown) { text += "\n    " + frame.summary }
            if frames.count > framesShown { text += "\n    …" }
        }
        return text
    }

    /// The complete report, as `zguard report` prints it.
    var report: String { TextRenderer().render(self) }

    /// The innermost source location of the program's own code in the access stack; nil if unknown.
    var origin: SourceLocation? {
        // A late write is noticed long after it happened: its access stack is the detector's, not the writer's.
        if isNoticedLate { return nil }
        return stacks.access.lazy.compactMap(\.sourceLocation).first
    }

    /// The innermost source location of the program's own code in the free stack; nil if unknown.
    var freeOrigin: SourceLocation? { stacks.free.lazy.compactMap(\.sourceLocation).first }

    // Frames in the program's source files, without the test runner and this library. All frames if no file is known.
    private static func own(_ stack: [Frame]) -> [Frame] {
        let own = stack.filter { $0.isInSource }
        return own.isEmpty ? stack : own
    }
}

extension Finding.Holder {
    /// Whether the holder is a local variable in a function of this library.
    var isInLibrary: Bool { place == Place.stack && (frame?.isInOwnDirectory ?? false) }
}

extension Finding.Frame {
    // Directory of this library's source files. The library calls the tests' closures, so many stacks contain its
    // frames.
    private static let ownDirectory = String(#filePath.prefix(through: #filePath.lastIndex(of: "/")!))

    // Files of expanded macros, and the package manager's generated test runner.
    private static let generated = ["/swift-generated-sources/", ".derived/"]

    /// Whether the frame is in a source file of this library, or of the part of it that is written in C.
    fileprivate var isInOwnDirectory: Bool {
        file?.hasPrefix(Self.ownDirectory) ?? false || function?.hasPrefix("zg_testing_") ?? false
    }

    /// Whether the frame is in a hand-written source file outside this library.
    fileprivate var isInSource: Bool {
        guard !isLibraryCode, let file, let line, line > 0, file.hasPrefix("/") else { return false }
        return !file.hasPrefix(Self.ownDirectory) && !Self.generated.contains { file.contains($0) }
    }

    fileprivate var sourceLocation: SourceLocation? {
        guard isInSource, let file, let line else { return nil }
        let parts = file.split(separator: "/")
        guard parts.count > 1 else { return nil }
        // Assumes that the file's directory has the name of the module.
        return SourceLocation(
            fileID: "\(parts[parts.count - 2])/\(parts[parts.count - 1])", filePath: file, line: line,
            column: max(1, column ?? 1))
    }

    fileprivate var summary: String {
        guard let function else { return "\(visible(moduleName ?? "?"))\(offset.map { "+\($0)" } ?? "")" }
        guard let file, let line else { return "\(visible(function))  (\(visible(moduleName ?? "?")))" }
        return "\(visible(function))  \(visible(Self.relative(file))):\(line)"
    }

    // Makes paths below the working directory relative. `swift test` runs in the package's directory.
    private static func relative(_ file: String) -> String {
        guard let directory = getcwd(nil, 0) else { return file }
        defer { free(directory) }
        let prefix = String(cString: directory) + "/"
        return file.hasPrefix(prefix) ? String(file.dropFirst(prefix.count)) : file
    }
}
