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
        // A name in backticks may hold anything but those.
        guard let labels = test.name.lastIndex(of: "(") else { return nil }
        let name = test.name[..<labels].filter { $0 != "`" }
        let id = "\(test.id)".filter { $0 != "`" }
        guard let function = id.firstRange(of: "/\(name)("), let module = id.firstIndex(of: ".") else { return nil }
        if module > function.lowerBound { return "\(name)(" }
        let types = id[id.index(after: module)..<function.lowerBound].replacing("/", with: ".")
        return "\(types).\(name)("
    }
}
