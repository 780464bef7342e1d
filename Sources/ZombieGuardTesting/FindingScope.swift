// A part of a test run, for which findings are collected.

import Testing

/// A test, or a part of a test. ``FindingLedger`` assigns findings to the open scopes.
final class FindingScope: Sendable {
    /// The innermost scope of the current task. XCTest tests do not run in a task: see ``CurrentTest/xctestCase``.
    @TaskLocal static var current: FindingScope?

    /// Name of the scope in messages.
    let label: String
    /// Part of the demangled name of the test's function, such as "CartTests.add("; nil if unknown.
    let functionName: String?
    let parent: FindingScope?

    init(label: String, functionName: String?, parent: FindingScope?) {
        self.label = label
        self.functionName = functionName
        self.parent = parent
    }

    /// The scope of a complete Swift Testing test.
    convenience init(_ test: Test) {
        self.init(
            label: test.displayName.map { "test “\($0)”" } ?? "test \(test.name)",
            functionName: Self.functionName(of: test), parent: Self.current)
    }

    /// Makes a scope for a part of the current test. The test itself need not have a scope.
    static func part(of parent: FindingScope?) -> FindingScope {
        if let parent {
            return FindingScope(label: parent.label, functionName: parent.functionName, parent: parent)
        }
        if let test = Test.current { return FindingScope(test) }
        return FindingScope(label: "other code", functionName: nil, parent: nil)
    }

    // "ShopTests.CartTests/Inner/add(_:)/CartTests.swift:7:24" -> "CartTests.Inner.add("
    private static func functionName(of test: Test) -> String? {
        // Search for the last parenthesis: a raw identifier may contain any character except backticks.
        guard let labels = test.name.lastIndex(of: "(") else { return nil }
        let name = test.name[..<labels].filter { $0 != "`" }
        let id = "\(test.id)".filter { $0 != "`" }
        guard let function = id.firstRange(of: "/\(name)("), let module = id.firstIndex(of: ".") else { return nil }
        if module > function.lowerBound { return "\(name)(" }
        let types = id[id.index(after: module)..<function.lowerBound].replacing("/", with: ".")
        return "\(types).\(name)("
    }
}
