// Lists that exist twice: schemas, documents and Swift enums must match the runtime's tables.

import CZombie
import Foundation
import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore

/// Reads files of the project, independent of the directory in which the tests run.
struct ProjectFiles {
    private let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    func text(_ path: String) throws -> String { try String(contentsOf: root.appending(path: path), encoding: .utf8) }

    func schema(_ name: String) throws -> [String: Any] {
        let data = try Data(contentsOf: root.appendingPathComponent("docs/\(name).schema.json"))
        return try #require(try JSONSerialization.jsonObject(with: data) as? [String: Any])
    }

    /// Returns the cells of each row of a document's table, without header and separator. `head`: title of the table's
    /// first column.
    func table(_ head: String, of path: String) throws -> [[String]] {
        let lines = try text(path).split(separator: "\n", omittingEmptySubsequences: false)
        let start = try #require(lines.firstIndex { $0.hasPrefix("| \(head) |") })
        return lines[(start + 2)...].prefix { $0.hasPrefix("| ") }.map { line in
            line.dropFirst(2).dropLast(2).components(separatedBy: " | ")
        }
    }
}

@Suite struct ListTests {
    private let project = ProjectFiles()
    private let kinds = Finding.Kind.all.map(\.rawValue)
    private let accesses = Finding.Access.all.map(\.rawValue)
    private let states = Finding.Block.State.allCases.map(\.rawValue)
    private let languages = Finding.Block.Language.allCases.map(\.rawValue)

    /// Returns all names that a function has for the numbers of an enum.
    private func names(_ text: (UInt32) -> UnsafePointer<CChar>?) -> Set<String> {
        Set((0..<64).compactMap { text($0).map { String(cString: $0) } })
    }

    @Test func enumsHaveTheRuntimesNames() {
        #expect(names(zg_block_state_text) == Set(states))
        #expect(names(zg_block_language_text) == Set(languages))
        #expect(Set(OptionTable.kindNames) == Set(OptionTable.Option.Kind.allCases.map(\.rawValue)))
    }

    @Test func wordsAreTheRuntimes() {
        #expect(Finding.Kind.useAfterFree.rawValue == "use-after-free")
        #expect(Finding.Kind.stackOverflow.rawValue == "stack-overflow")
        #expect(Finding.Kind.exclusivity.rawValue == "exclusivity")
        #expect(Finding.Kind.crash.rawValue == "crash")
        #expect(Finding.Access.read.rawValue == "read" && Finding.Access.unknown.rawValue == "unknown")
        #expect(Finding.Confidence.all == [.exact, .inferred])
        for list in [kinds, accesses, states, languages] {
            #expect(Set(list).count == list.count && !list.contains(""))
        }
    }

    @Test func findingSchemaNamesTheWords() throws {
        let schema = try project.schema("finding")
        let parts = try #require(schema["$defs"] as? [String: [String: Any]])
        func properties(_ part: [String: Any]?) throws -> [String: [String: Any]] {
            try #require(part?["properties"] as? [String: [String: Any]])
        }
        let raw = try properties(parts["rawFinding"])
        for finding in [try properties(schema), raw] {
            #expect(finding["kind"]?["examples"] as? [String] == kinds)
            #expect(finding["access"]?["examples"] as? [String] == accesses)
            #expect(finding["confidence"]?["examples"] as? [String] == Finding.Confidence.all.map(\.rawValue))
            #expect(finding["schema"]?["const"] as? String == Finding.schema)
        }
        let reported = Finding.Block.State.allCases.filter(\.isReported).map(\.rawValue)
        for block in [try properties(parts["block"]), try properties(raw["block"])] {
            #expect(block["state"]?["examples"] as? [String] == reported)
            #expect((block["language"]?["examples"] as? [String]).map(Set.init) == Set(languages))
        }
    }

    @Test func historySchemaNamesTheWords() throws {
        let properties = try #require(try project.schema("history")["properties"] as? [String: [String: Any]])
        func words(_ part: String, _ key: String) throws -> Set<String> {
            let own = try #require(properties[part]?["properties"] as? [String: [String: Any]])
            return Set(try #require(own[key]?["enum"] as? [String]))
        }
        #expect(try words("block", "state") == Set(states))
        #expect(try words("block", "language") == Set(languages).subtracting(["unknown"]))
        #expect(try words("trap", "access").isSubset(of: accesses))
    }

    @Test func everyKindHasASentenceAndATitleOfItsOwn() {
        func sentence(_ kind: Finding.Kind) -> String { Finding(kind: kind, address: Address(0x10)).sentence }
        let sentences = Finding.Kind.all.map(sentence)
        #expect(Set(sentences).count == sentences.count)
        #expect(!sentences.contains(sentence(Finding.Kind(rawValue: "of a later version"))))
        for kind in FindingKind.all {
            #expect(kind.summary.hasSuffix(".") && kind.explanation.hasSuffix(".") && kind.help.hasSuffix("."))
            #expect(kind.weakness != 0 && kind.name != "Other")
        }
    }

    @Test func everyAccessHasWords() {
        #expect(Finding.Access.write.noun == "write" && Finding.Access.write.done == "written")
        #expect(Finding.Access.unknown.noun == "access" && Finding.Access.unknown.done == "used")
        let later = Finding.Access(rawValue: "\u{1b}later")
        #expect(later.noun == visible(later.rawValue) && later.done == "used")
    }

    @Test func findingsDocumentExplainsTheKinds() throws {
        let rows = try project.table("kind", of: "docs/FINDINGS.md")
        #expect(
            rows
                == FindingKind.all.map { kind in
                    let weakness = kind.weakness.map { "CWE-\($0)" } ?? ""
                    return ["`\(kind.kind.rawValue)`", kind.summary, weakness, kind.level.rawValue]
                })
    }

    @Test func readmeNamesTheKinds() throws {
        let table = try project.table("finding", of: "README.md").map { $0[0] }.joined(separator: " ")
        let named = Set(
            table.matches(of: /`([a-z]+(?:-[a-z]+)+|exclusivity|crash|stall|deadlock|leak)`/).map { String($0.1) })
        #expect(named == Set(kinds))
    }

    @Test func suppressionsDocumentNamesTheKinds() throws {
        let text = try project.text("docs/SUPPRESSIONS.md")
        let list = try #require(text.firstMatch(of: /is a kind of finding \(([^)]*)\)/)).1
        #expect(Set(list.matches(of: /`([^`]*)`/).map { String($0.1) }) == Set(kinds))
    }
}
