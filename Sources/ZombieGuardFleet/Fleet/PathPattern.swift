// Replaces matches of a redaction pattern, in time proportional to the length of the text.

import Glibc
import ZombieGuard

/// A pattern such as `/home/*/`. An asterisk matches one or more bytes of a single path component.
struct PathPattern: Sendable {
    /// Why a pattern is invalid.
    struct Malformed: Error { var reason: String }

    private let pieces: [[UInt8]]

    // Limit of pieces in a pattern: each piece has one bit in the 64-bit mask of a position.
    private static let mostPieces = UInt64.bitWidth

    init(_ pattern: String) throws(Malformed) {
        pieces = pattern.utf8.split(separator: UInt8(ascii: "*"), omittingEmptySubsequences: false).map { Array($0) }
        if pieces[0].isEmpty { throw Malformed(reason: "a pattern must begin with text, such as /home/*/") }
        if pieces.count > Self.mostPieces {
            throw Malformed(reason: "a pattern has more than \(Self.mostPieces - 1) asterisks")
        }
    }

    /// Returns the text with every match replaced, left to right; nil if there is none. Asterisks are greedy, and the
    /// first asterisk takes precedence, because a shorter match would leave a part of a name behind.
    func replacing(in text: [UInt8], with new: [UInt8]) -> [UInt8]? {
        text.withUnsafeBufferPointer { text in
            guard contains(pieces[0], text) else { return nil }
            let matches = matches(in: text)
            var result: [UInt8] = []
            var copied = 0
            var index = 0
            while index < text.count {
                guard matches[index] & 1 != 0 else {
                    index += 1
                    continue
                }
                result += text[copied..<index]
                result += new
                index = end(of: index, in: text, matches)
                copied = index
            }
            return copied == 0 ? nil : result + text[copied...]
        }
    }

    private func contains(_ piece: [UInt8], _ text: UnsafeBufferPointer<UInt8>) -> Bool {
        guard let start = text.baseAddress else { return false }
        var from = 0
        while let found = memchr(start + from, Int32(piece[0]), text.count - from) {
            from = UnsafeRawPointer(found) - UnsafeRawPointer(start)
            if begins(piece, text, at: from) { return true }
            from += 1
        }
        return false
    }

    private func begins(_ piece: [UInt8], _ text: UnsafeBufferPointer<UInt8>, at position: Int) -> Bool {
        guard piece.count <= text.count - position, !piece.isEmpty else { return piece.isEmpty }
        return piece.withUnsafeBytes { memcmp($0.baseAddress!, text.baseAddress! + position, $0.count) == 0 }
    }

    /// For each position (end included), a mask with a bit for each piece; bit 0 is the first piece. The bit is set if
    /// the pattern from this piece on matches at the position. Dynamic programming from the last piece to the first
    /// avoids backtracking.
    private func matches(in text: UnsafeBufferPointer<UInt8>) -> [UInt64] {
        var matches = [UInt64](repeating: 0, count: text.count + 1)
        // Whether an asterisk that begins here can reach a match of the next piece.
        var isReached = [Bool](repeating: false, count: text.count + 1)
        for (number, piece) in pieces.enumerated().reversed() {
            let isLast = number == pieces.count - 1
            if !isLast {
                var isInComponent = false
                for position in stride(from: text.count, through: 0, by: -1) {
                    if position == text.count || text[position] == UInt8(ascii: "/") { isInComponent = false }
                    isReached[position] = isInComponent
                    if matches[position] >> UInt64(number + 1) & 1 != 0 { isInComponent = true }
                }
            }
            if text.count < piece.count { continue }
            for position in 0...(text.count - piece.count) where isLast || isReached[position + piece.count] {
                if begins(piece, text, at: position) { matches[position] |= 1 << UInt64(number) }
            }
        }
        return matches
    }

    /// Returns the end of the match that begins at a position. Each asterisk scans its path component backward for the
    /// last position at which the following pieces match. Later matches begin after that position, so over all matches
    /// an asterisk reads each byte once.
    private func end(of start: Int, in text: UnsafeBufferPointer<UInt8>, _ matches: [UInt64]) -> Int {
        var end = start + pieces[0].count
        for number in 1..<max(1, pieces.count) {
            var next = end
            while next < text.count, text[next] != UInt8(ascii: "/") { next += 1 }
            while matches[next] >> UInt64(number) & 1 == 0 { next -= 1 }
            end = next + pieces[number].count
        }
        return end
    }
}
