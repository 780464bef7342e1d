// Reads lines of a file that may be huge, growing, or garbage, in bounded memory.

import Glibc

/// Reads a file line by line. Holds at most one line in memory, and no part of a line that is too long.
package struct LineReader {
    package struct Line {
        /// Line number, from 1.
        package var number: Int
        /// The line without its line feed; empty if `isTooLong`.
        package var bytes: [UInt8]
        package var isTooLong = false
        /// The file ended before the line feed.
        package var isCutOff = false
    }

    package static let longestLine = 4 << 20

    private let source: any ByteSource
    private var buffer: [UInt8] = []
    private var position = 0
    private var partial: [UInt8] = []
    private var isTooLong = false
    private var number = 0
    /// Bytes of all lines returned so far, including their line feeds.
    private(set) var offset: UInt64 = 0
    private var unfinished: UInt64 = 0

    package init(source: any ByteSource) { self.source = source }

    /// The reason why the lines end early; nil if there is no error.
    var problem: String? { source.problem }

    /// The next complete line; nil at the current end. Call again when the file has grown.
    package mutating func next() throws(SystemError) -> Line? {
        while true {
            if position == buffer.count {
                buffer = try source.read(upTo: 1 << 16)
                position = 0
                if buffer.isEmpty { return nil }
            }
            guard let end = lineFeed else {
                keep(buffer[position...])
                position = buffer.count
                continue
            }
            keep(buffer[position..<end])
            offset += unfinished + 1
            unfinished = 0
            position = end + 1
            return takeLine()
        }
    }

    private var lineFeed: Int? {
        buffer.withUnsafeBytes { bytes in
            guard let start = bytes.baseAddress, let found = memchr(start + position, 0x0a, bytes.count - position)
            else {
                return nil
            }
            return UnsafeRawPointer(found) - start
        }
    }

    /// The rest behind the last line feed, for a file that no longer grows; nil if there is none.
    mutating func finish() -> Line? {
        guard isTooLong || !partial.isEmpty else { return nil }
        var line = takeLine()
        line.isCutOff = true
        return line
    }

    private mutating func keep(_ bytes: ArraySlice<UInt8>) {
        unfinished += UInt64(bytes.count)
        if isTooLong { return }
        if partial.count + bytes.count > Self.longestLine {
            isTooLong = true
            partial = []
        } else {
            partial += bytes
        }
    }

    private mutating func takeLine() -> Line {
        number += 1
        defer {
            partial = []
            isTooLong = false
        }
        return Line(number: number, bytes: partial, isTooLong: isTooLong)
    }
}
