// Selects the tests of a bundle and makes the command that runs them, with the same arguments as `swift test`.

import Foundation

/// Regular expressions that select tests.
struct TestFilters {
    var wanted: [String]
    var skipped: [String]

    var isEmpty: Bool { wanted.isEmpty && skipped.isEmpty }

    /// Returns the text if it is a valid regular expression, else throws.
    static func pattern(_ text: String) throws(PluginFailure) -> String {
        do { _ = try Regex(text) } catch {
            throw PluginFailure(message: "'\(text)' is no regular expression: \(error)", status: .usage)
        }
        return text
    }

    /// Whether to run a test. `test` has the form "Module.Class/test".
    func choose(_ test: String) -> Bool {
        let matches = { (pattern: String) in (try? Regex(pattern)).map { test.contains($0) } ?? false }
        return (wanted.isEmpty || wanted.contains(where: matches)) && !skipped.contains(where: matches)
    }
}

/// The command to run the tests of one bundle. XCTest and Swift Testing tests run one after the other.
struct TestPlan {
    /// Exit status of Swift Testing if no test matches.
    static let noTests: Int32 = 69

    let bundle: URL
    /// Arguments of the bundle for the XCTest tests; nil if there are no such tests.
    var xctest: [String]?
    /// Arguments of the bundle for the Swift Testing tests; nil if there are no such tests.
    var swiftTesting: [String]?

    /// Whether both libraries have tests to run, which requires a script.
    var isScript: Bool { xctest != nil && swiftTesting != nil }

    /// Asks the bundle for its tests. A bundle that cannot list them is run completely.
    ///
    /// - Parameter hasOwnEntryPoint: whether the package has an entry point of its own. Such an entry point runs all
    ///   tests, whichever testing library is requested, so the bundle runs once, as under `swift test`.
    init(bundle: URL, filters: TestFilters, hasOwnEntryPoint: Bool) {
        self.bundle = bundle
        if let data = Self.output(of: bundle, ["--dump-tests-json"]),
            let root = try? JSONDecoder().decode(Node.self, from: data)
        {
            let tests = root.names(in: nil)
            let chosen = tests.filter(filters.choose)
            // If all tests are chosen, they are not named: the length of a command line argument is limited.
            if !chosen.isEmpty { xctest = chosen.count == tests.count ? [] : [chosen.joined(separator: ",")] }
        } else {
            xctest = []
        }
        if hasOwnEntryPoint { return }
        let listed = Self.output(of: bundle, ["--testing-library", "swift-testing", "--list-tests"])
        if listed.map({ !$0.isEmpty }) ?? true {
            swiftTesting =
                ["--testing-library", "swift-testing"] + filters.wanted.flatMap { ["--filter", $0] }
                + filters.skipped.flatMap { ["--skip", $0] }
        }
    }

    /// The program to run and its arguments; nil if no test is to be run. If both libraries have tests, the program is
    /// a script that runs both, so that there is one report. The script exits with the first failing status.
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

    /// A suite or test as listed by XCTest. Tests are leaves, and the name of their parent is the class name.
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
