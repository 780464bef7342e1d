// Reads lines of source files for reports that show code beside a stack.

import Glibc

/// Lines of a source file, safe to print. Tabs are expanded, and long lines are cut; of a long marked line, the part
/// around its column is shown.
public struct SourceExcerpt: Hashable, Sendable {
    /// Number of the first line, counted from 1.
    public var first: Int
    /// Number of the line that the excerpt is about.
    public var marked: Int
    /// The lines, safe to print, without line feeds.
    public var lines: [String]
    /// Position in the marked line, in terminal columns from 1; nil if unknown.
    public var column: Int?
    /// Whether the file was modified after the program was built, so that the lines may differ from the compiled ones.
    public var isNewerThanProgram = false
}

/// Reads excerpts, each file once. Reports are untrusted and may name any file. Therefore only regular files with the
/// suffix of a source language are read, and only those that the author of the report may read; opening them never
/// blocks. Not thread-safe.
public final class SourceExcerpts {
    static let largestFile: Int64 = 8 << 20
    static let longestLine = 160
    static let tabWidth = 4
    private static let largestCache = 64 << 20

    // Suffixes of source files in compiled languages. Configuration files and scripts are excluded because they may
    // hold secrets.
    private static let suffixes: Set<String> = [
        "c", "h", "cc", "hh", "cpp", "hpp", "cxx", "hxx", "c++", "h++", "ipp", "inl", "inc", "tcc", "tpp", "def", "m",
        "mm", "swift", "gyb", "rs", "go", "zig", "d", "nim", "cr", "v", "vala", "pas", "pp", "adb", "ads", "f", "for",
        "f90", "f95", "f03", "f08", "s", "asm", "cu", "cuh", "cl", "y", "l", "yy", "ll", "re", "ml", "hs", "pyx",
    ]

    private struct File {
        var bytes: [UInt8]
        /// Offset of each line.
        var starts: [Int]
        var modified: Int
    }

    private struct Key: Hashable {
        var path: String
        var author: Author
    }

    private var files: [Key: File?] = [:]
    private var programs: [Key: Int?] = [:]
    private var cached = 0

    /// Creates a reader; files are read on demand.
    public init() {}

    /// Returns the lines around a frame's line; nil if the frame has no line or its file cannot be shown.
    ///
    /// - Parameters:
    ///   - frame: a frame with file and line.
    ///   - author: the author of the frame's finding.
    ///   - context: number of lines to show before and after that line.
    /// - Returns: the lines.
    public func excerpt(for frame: Finding.Frame, by author: Author, context: Int = 2) -> SourceExcerpt? {
        guard let path = frame.file, let line = frame.line,
            var excerpt = excerpt(of: path, by: author, line: line, context: context)
        else { return nil }
        let file = file(Key(path: path, author: author))
        if let column = frame.column, let file,
            let shown = Self.text(of: line, showing: column, in: file)
        {
            excerpt.lines[line - excerpt.first] = shown.text
            excerpt.column = shown.column
        }
        let program = frame.module.flatMap { modification(of: Key(path: $0, author: author)) }
        if let program, let file {
            excerpt.isNewerThanProgram = file.modified > program
        }
        return excerpt
    }

    /// Returns the lines from `context` before a line to `context` after it; nil if the file has no such line or must
    /// not be read.
    ///
    /// - Parameters:
    ///   - path: path of the source file.
    ///   - author: the author of the report that names the path.
    ///   - line: number of the line, from 1.
    ///   - context: number of lines to show before and after that line.
    /// - Returns: the lines.
    public func excerpt(of path: String, by author: Author, line: Int, context: Int = 2) -> SourceExcerpt? {
        guard line > 0, let file = file(Key(path: path, author: author)), line <= file.starts.count else { return nil }
        let first = max(1, line - max(0, context))
        let last = line + min(max(0, context), file.starts.count - line)
        return SourceExcerpt(first: first, marked: line, lines: (first...last).map { Self.text(of: $0, in: file) })
    }

    private func file(_ key: Key) -> File? {
        if let known = files[key] { return known }
        let file = Self.read(key)
        if let file {
            if cached + file.bytes.count > Self.largestCache {
                files = [:]
                cached = 0
            }
            cached += file.bytes.count
        }
        files[key] = .some(file)
        return file
    }

    private static func read(_ key: Key) -> File? {
        let parts = key.path.split(separator: "/")
        guard let name = parts.last, let dot = name.lastIndex(of: "."), name.startIndex < dot,
            !parts.contains("..") || key.path.hasPrefix("/"),
            suffixes.contains(name[name.index(after: dot)...].lowercased())
        else { return nil }
        // The resolved path must have the same file name: a symbolic link called evil.c may lead to any file.
        guard let (file, path) = try? key.author.open(key.path), path.split(separator: "/").last == name,
            let status = file.status, status.st_size <= largestFile,
            let bytes = try? file.read(at: 0, upTo: Int(status.st_size)), !bytes.isEmpty, !bytes.contains(0)
        else { return nil }
        var starts = [0]
        for (index, byte) in bytes.enumerated() where byte == UInt8(ascii: "\n") && index + 1 < bytes.count {
            starts.append(index + 1)
        }
        return File(bytes: bytes, starts: starts, modified: Int(status.st_mtim.tv_sec))
    }

    private func modification(of program: Key) -> Int? {
        if let known = programs[program] { return known }
        let file = program.path.hasPrefix("/") ? try? program.author.open(program.path).file : nil
        let time = file?.status.map { Int($0.st_mtim.tv_sec) }
        programs[program] = .some(time)
        return time
    }

    private static func text(of line: Int, in file: File) -> String {
        let bytes = bytes(of: line, in: file)
        let shown = bytes.prefix(longestLine)
        return visible(expanded(shown)) + (shown.count < bytes.count ? FittingText.cut : "")
    }

    // The text of a line, and the terminal column of the byte `column`. `column` is as in debug information: it counts
    // bytes from 1, and a tab as one. For a line longer than `longestLine`, returns a part that contains the byte. Nil
    // if the line has no such byte.
    private static func text(of line: Int, showing column: Int, in file: File) -> FittingText? {
        let bytes = bytes(of: line, in: file)
        guard column >= 1, column <= bytes.count else { return nil }
        let at = bytes.startIndex + column - 1
        var start = bytes.startIndex
        if column > longestLine {
            start = at - longestLine / 2
            while start < at, bytes[start] & 0xc0 == 0x80 { start += 1 } // skip UTF-8 continuation bytes
        }
        let shown = bytes[start...].prefix(longestLine)
        let before = (start > bytes.startIndex ? FittingText.cut : "") + visible(expanded(bytes[start..<at]))
        let text = (start > bytes.startIndex ? FittingText.cut : "") + visible(expanded(shown))
        let width = before.reduce(0) { $0 + $1.columns }
        return FittingText(
            whole: text + (shown.endIndex < bytes.endIndex ? FittingText.cut : ""), column: width + 1)
    }

    // The bytes of a line without its line end.
    private static func bytes(of line: Int, in file: File) -> ArraySlice<UInt8> {
        let start = file.starts[line - 1]
        let end = line < file.starts.count ? file.starts[line] : file.bytes.count
        var bytes = file.bytes[start..<end]
        while let last = bytes.last, last == UInt8(ascii: "\n") || last == UInt8(ascii: "\r") { bytes.removeLast() }
        return bytes
    }

    private static func expanded(_ bytes: ArraySlice<UInt8>) -> String {
        var text = ""
        var column = 0
        for character in String(decoding: bytes, as: UTF8.self) {
            let width = character == "\t" ? tabWidth - column % tabWidth : character.columns
            text += character == "\t" ? String(repeating: " ", count: width) : String(character)
            column += width
        }
        return text
    }
}
