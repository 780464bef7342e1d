// A stretch of a test run whose findings somebody waits for.

import Testing

/// A test, or a part of one. Findings that come while it is open are its own; see ``FindingLedger``.
final class FindingScope: Sendable {
    /// The scope that the code of this task runs in. XCTest has no tasks to bind it to: see ``FindingLedger``.
    @TaskLocal static var current: FindingScope?

    /// What messages call it.
    let label: String
    /// What the demangled name of the test's function contains, where it is known: "CartTests.add(".
    let functionName: String?
    let parent: FindingScope?

    init(label: String, functionName: String?, parent: FindingScope?) {
        self.label = label
        self.functionName = functionName
        self.parent = parent
    }

    /// A whole test of Swift Testing.
    convenience init(_ test: Test) {
        self.init(
            label: test.displayName.map { "test “\($0)”" } ?? "test \(test.name)",
            functionName: Self.functionName(of: test), parent: Self.current)
    }

    /// A part of the current test, which may itself be no scope.
    static func part(of parent: FindingScope?) -> FindingScope {
        if let parent {
            return FindingScope(label: parent.label, functionName: parent.functionName, parent: parent)
        }
        if let test = Test.current { return FindingScope(test) }
        return FindingScope(label: "other code", functionName: nil, parent: nil)
    }

    // "ShopTests.CartTests/Inner/add(_:)/CartTests.swift:7:24" -> "CartTests.Inner.add("
    private static func functionName(of test: Test) -> String? {
        // A name in backticks may hold anything.
        let name = test.name.hasPrefix("`")
            ? test.name.prefix(through: test.name.lastIndex(of: "`")!) : test.name.prefix { $0 != "(" }
        let parts = "\(test.id)".split(separator: "/")
        guard let function = parts.firstIndex(where: { $0.hasPrefix(name) }) else { return nil }
        let types = parts[..<function].enumerated().map { index, part in
            index == 0 ? part.drop { $0 != "." }.dropFirst() : part
        }
        return (types.filter { !$0.isEmpty } + [name[...]]).joined(separator: ".") + "("
    }
}
