// The first line of a file of raw findings that a run keeps beside its report.

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// What a run says of itself, as a line of its own: `{"schema":"zguard.unfinished/1","has_begun":1,"directory":"…"}`, padded
/// with blanks, so that it can be written again in its place.
package struct UnfinishedLine: Hashable, Codable {
    package static let schema = "zguard.unfinished/1"
    private static let bytes = 512

    private var schema = Self.schema
    /// The report is written anew: what it holds is of this run.
    package var hasBegun: Bool
    /// The run's directory, where processes that may not append to the file have files of their own.
    package var directory: String

    private enum CodingKeys: String, CodingKey {
        case schema
        case hasBegun = "has_begun"
        case directory
    }

    package init(hasBegun: Bool, directory: String) {
        self.hasBegun = hasBegun
        self.directory = directory
    }

    /// Reads the line; nil where it is another one.
    package init?(jsonLine: String) {
        guard let line = try? JSONDecoder().decode(Self.self, from: Data(jsonLine.utf8)), line.schema == Self.schema
        else { return nil }
        self = line
    }

    /// The line with its line feed, always of the same length for one directory.
    package var text: String {
        let line = JSONText.object([
            ("schema", .string(schema)), ("has_begun", .bool(hasBegun)), ("directory", .string(directory)),
        ]).line
        return line + String(repeating: " ", count: max(0, Self.bytes - 1 - line.utf8.count)) + "\n"
    }
}
