// The test that the calling code runs in, of either library, and how it fails.

import Synchronization
import Testing
@preconcurrency import XCTest
import ZombieGuardCore

/// The test that runs now.
enum CurrentTest {
    case swiftTesting(Test, Test.Case?)
    case xctest(XCTestCase)
    case none

    /// The running test of XCTest, which runs one at a time. Set by ``TestObserver``.
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

    /// Names the test, and its arguments, equally in every process that runs this bundle; nil outside of tests.
    var key: String? {
        switch self {
        case .swiftTesting(let test, let testCase): "\(test.id) \(testCase.map { Self.arguments(of: $0) } ?? "")"
        case .xctest(let testCase): Self.specifier(testCase)
        case .none: nil
        }
    }

    /// The arguments that make the test bundle run this test and no other.
    var arguments: [String] {
        switch self {
        case .swiftTesting(let test, _):
            ["--testing-library", "swift-testing", "--no-parallel", "--filter", "^\(Self.escaped("\(test.id)"))$"]
        case .xctest(let testCase): [Self.specifier(testCase)]
        case .none: []
        }
    }

    /// Fails the test; the report is attached where the library can.
    static func fail(_ message: String, at location: SourceLocation, report: String? = nil) {
        guard case .xctest(let testCase) = now else {
            if let report { OlderTesting.attach(report, at: location) }
            Issue.record(Comment(rawValue: message), sourceLocation: location)
            return
        }
        testCase.recordFailure(
            withDescription: message, inFile: location.path, atLine: location.line, expected: true)
    }

    // "ShopTests.CartTests/testAdd"
    private static func specifier(_ testCase: XCTestCase) -> String {
        let method = testCase.name.split(separator: ".").last ?? ""
        return "\(String(reflecting: type(of: testCase)))/\(method)"
    }

    // As a regular expression that matches just this text.
    private static func escaped(_ text: String) -> String {
        text.reduce(into: "") { escaped, character in
            if character.isASCII, !character.isLetter, !character.isNumber { escaped += "\\" }
            escaped.append(character)
        }
    }

    // A test case does not name its arguments, but it can be looked into. Addresses differ in every process.
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
