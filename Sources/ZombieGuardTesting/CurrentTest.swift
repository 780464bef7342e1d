// Finds the Swift Testing or XCTest test that the calling code runs in, and makes it fail.

import Synchronization
import Testing
@preconcurrency import XCTest
import ZombieGuardCore

/// The test that is currently running.
enum CurrentTest {
    case swiftTesting(Test, Test.Case?)
    case xctest(XCTestCase)
    case none

    /// The running XCTest test; XCTest runs one test at a time. Set by ``TestObserver``.
    static let xctestCase = Mutex<RunningTestCase?>(nil)

    struct RunningTestCase: @unchecked Sendable {
        var testCase: XCTestCase
        var scope: FindingScope
    }

    static var now: CurrentTest {
        if let test = Test.current { return .swiftTesting(test, Test.Case.current) }
        if let running = xctestCase.withLock({ $0 }) { return .xctest(running.testCase) }
        return .none
    }

    /// Identifies the test and its arguments, with the same text in every process that runs this bundle; nil outside of
    /// tests.
    var key: String? {
        switch self {
        case .swiftTesting(let test, let testCase): "\(test.id) \(testCase.map { Self.arguments(of: $0) } ?? "")"
        case .xctest(let testCase): Self.specifier(testCase)
        case .none: nil
        }
    }

    /// Command line arguments that make the test bundle run only this test.
    var arguments: [String] {
        switch self {
        case .swiftTesting(let test, _):
            ["--testing-library", "swift-testing", "--no-parallel", "--filter", "^\(Self.escaped("\(test.id)"))$"]
        case .xctest(let testCase): [Self.specifier(testCase)]
        case .none: []
        }
    }

    /// Fails the test and attaches the report if the test library supports attachments.
    static func fail(_ message: String, at location: SourceLocation, report: String? = nil) {
        guard case .xctest(let testCase) = now else {
            if let report { OlderTesting.attach(report, at: location) }
            Issue.record(Comment(rawValue: message), sourceLocation: location)
            return
        }
        testCase.recordFailure(
            withDescription: message, inFile: location.path, atLine: location.line, expected: true)
    }

    // Name of a test in XCTest's command line format, such as "ShopTests.CartTests/testAdd".
    private static func specifier(_ testCase: XCTestCase) -> String {
        let method = testCase.name.split(separator: ".").last ?? ""
        return "\(String(reflecting: type(of: testCase)))/\(method)"
    }

    // Escapes a text as a regular expression that matches only this text.
    private static func escaped(_ text: String) -> String {
        text.reduce(into: "") { escaped, character in
            if character.isASCII, !character.isLetter, !character.isNumber { escaped += "\\" }
            escaped.append(character)
        }
    }

    // Swift Testing has no API for a test case's arguments, so they are taken from a dump of the test case. Removes the
    // addresses of private contexts, which differ between processes.
    private static func arguments(of testCase: Test.Case) -> String {
        guard testCase.isParameterized else { return "" }
        var text = ""
        dump(testCase, to: &text, maxItems: 2000)
        return text.split(separator: "\n").map { line in
            guard let start = line.firstRange(of: "(unknown context at $") else { return line }
            return line[..<start.lowerBound] + line[start.upperBound...].drop { $0 != ")" }
        }.joined(separator: "\n")
    }
}
