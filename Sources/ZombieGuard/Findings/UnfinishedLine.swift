// Defines the first line of a run's file of raw findings, which lies beside the run's report.

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The first line of a run's file of raw findings:
/// `{"schema":"zguard.unfinished/1","has_begun":false,"directory":"…"}`, padded with spaces to a fixed length so that
/// it can be overwritten in place.
package struct UnfinishedLine: Hashable, Codable {
    package static let schema = "zguard.unfinished/1"
    private static let bytes = 512

    private var schema = Self.schema
    /// Whether the run has truncated the report, so that the report holds findings of this run only.
    package var hasBegun: Bool
    /// The run's directory. Processes that may not append to the file of raw findings create their own files there.
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

    /// Parses the line; nil if the line has another schema.
    package init?(jsonLine: String) {
        guard let line = try? JSONDecoder().decode(Self.self, from: Data(jsonLine.utf8)), line.schema == Self.schema
        else { return nil }
        self = line
    }

    /// The line including its line feed; its length does not depend on `hasBegun`.
    package var text: String {
        let line = JSONText.object([
            ("schema", .string(schema)), ("has_begun", .bool(hasBegun)), ("directory", .string(directory)),
        ]).line
        return line + String(repeating: " ", count: max(0, Self.bytes - 1 - line.utf8.count)) + "\n"
    }
}
