// Which tests of a bundle run, and how the bundle is told: as `swift test` tells it.

import Foundation

/// Patterns that choose tests.
struct TestFilters {
    var wanted: [String]
    var skipped: [String]

    var isEmpty: Bool { wanted.isEmpty && skipped.isEmpty }

    /// The text, if it is a regular expression.
    static func pattern(_ text: String) throws(PluginFailure) -> String {
        do { _ = try Regex(text) } catch {
            throw PluginFailure(message: "'\(text)' is no regular expression: \(error)", status: .usage)
        }
        return text
    }

    /// Whether a test is to be run; its name is "Module.Class/test".
    func choose(_ test: String) -> Bool {
        let matches = { (pattern: String) in (try? Regex(pattern)).map { test.contains($0) } ?? false }
        return (wanted.isEmpty || wanted.contains(where: matches)) && !skipped.contains(where: matches)
    }
}

/// How the tests of one bundle are run. It holds those of both libraries, which run one after the other.
struct TestPlan {
    /// The status of Swift Testing where no test matches.
    static let noTests: Int32 = 69

    let bundle: URL
    /// The bundle's words for XCTest; nil where there is no such test.
    var xctest: [String]?
    /// The bundle's words for Swift Testing; nil where there is no such test.
    var swiftTesting: [String]?

    /// Both libraries have tests to run.
    var isScript: Bool { xctest != nil && swiftTesting != nil }

    /// Asks the bundle what it holds. A bundle that cannot say is run as a whole.
    init(bundle: URL, filters: TestFilters) {
        self.bundle = bundle
        if let data = Self.output(of: bundle, ["--dump-tests-json"]),
            let root = try? JSONDecoder().decode(Node.self, from: data)
        {
            let tests = root.names(in: nil)
            let chosen = tests.filter(filters.choose)
            // Without filters nothing is listed: a word of a command line has limits.
            if !chosen.isEmpty { xctest = chosen.count == tests.count ? [] : [chosen.joined(separator: ",")] }
        } else {
            xctest = []
        }
        let listed = Self.output(of: bundle, ["--testing-library", "swift-testing", "--list-tests"])
        if listed.map({ !$0.isEmpty }) ?? true {
            swiftTesting =
                ["--testing-library", "swift-testing"] + filters.wanted.flatMap { ["--filter", $0] }
                + filters.skipped.flatMap { ["--skip", $0] }
        }
    }

    /// The program to run, and its words; nil where there is nothing to run. Where both libraries have tests, it is a script that
    /// runs both, so that there is one report: it fails as the first that fails does.
    func command(scriptIn folder: URL, for package: String) throws -> [String]? {
        let runs = [xctest, swiftTesting].compactMap { $0 }
        if runs.count < 2 { return runs.first.map { [bundle.path] + $0 } }
        let script = folder.appendingPathComponent("\(package)PackageTests")
        let text = """
            #!/bin/sh
            bundle=$1
            first=$2
            shift 2
            if [ -n "$first" ]; then "$bundle" "$first"; else "$bundle"; fi
            status=$?
            "$bundle" "$@"
            last=$?
            [ "$last" -ne \(Self.noTests) ] || last=0
            [ "$status" -ne 0 ] || status=$last
            exit "$status"

            """
        try text.write(to: script, atomically: true, encoding: .utf8)
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: script.path)
        return [script.path, bundle.path, runs[0].first ?? ""] + runs[1]
    }

    /// Suites and tests as XCTest lists them: tests are leaves, and their parent's name is that of the class.
    private struct Node: Decodable {
        var name: String
        var tests: [Node]?

        func names(in parent: String?) -> [String] {
            guard let tests else { return parent.map { ["\($0)/\(name)"] } ?? [] }
            return tests.flatMap { $0.names(in: name) }
        }
    }

    private static func output(of bundle: URL, _ words: [String]) -> Data? {
        let process = Process()
        let pipe = Pipe()
        process.executableURL = bundle
        process.arguments = words
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = pipe
        process.standardError = FileHandle.nullDevice
        guard (try? process.run()) != nil else { return nil }
        let data = pipe.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return process.terminationReason == .exit && process.terminationStatus == 0 ? data : nil
    }
}
