// Replacements for features that Swift Testing of older toolchains lacks. A feature without a replacement is skipped
// with a message.

import Glibc

#if compiler(<6.1)
@_spi(Experimental) import Testing
#else
import Testing
#endif

/// Features that were added to Swift Testing after Swift 6.0.
enum OlderTesting {
    /// Attaches a report to the test.
    static func attach(_ report: String, at location: SourceLocation) {
        #if compiler(>=6.2)
        Attachment.record(Array(report.utf8), named: "zombie-report.txt", sourceLocation: location)
        #else
        _ = noAttachments
        #endif
    }

    /// Records a warning, which does not make the test fail.
    static func warn(_ message: String, at location: SourceLocation) {
        #if compiler(>=6.3)
        Issue.record(Comment(rawValue: message), severity: .warning, sourceLocation: location)
        #else
        say("\(location.fileID):\(location.line): warning: \(message)")
        #endif
    }

    /// Calls `body` on the caller's actor. The Swift 6.0 compiler rejects the direct call of the caller's closure in a
    /// function isolated to the caller's actor, but accepts the call through `withValue` of the standard library.
    static func inPlace<Value>(
        isolation: isolated (any Actor)? = #isolation, _ body: () async throws -> Value
    ) async rethrows -> Value {
        #if compiler(>=6.1)
        try await body()
        #else
        try await FindingScope.$current.withValue(FindingScope.current) { try await body() }
        #endif
    }

    #if compiler(<6.2)
    // A lazy static, so that the message is printed once.
    private static let noAttachments: Void = say(
        "ZombieGuard: reports are not attached to issues: Swift Testing has attachments since Swift 6.2")
    #endif

    private static func say(_ line: String) {
        var text = line + "\n"
        text.withUTF8 { _ = write(2, $0.baseAddress, $0.count) }
    }
}

extension SourceLocation {
    /// Path of the file as passed to the compiler.
    var path: String {
        #if compiler(>=6.3)
        filePath
        #else
        _filePath
        #endif
    }
}

#if compiler(<6.1)
// Before Swift 6.1, TestScoping was the experimental CustomExecutionTrait, which is also called for suites and
// functions, with a nil test case.
@_spi(Experimental) extension ZombieGuardedTrait: CustomExecutionTrait {
    public func execute(
        _ function: @escaping @Sendable () async throws -> Void, for test: Test, testCase: Test.Case?
    ) async throws {
        if testCase == nil { return try await function() }
        try await provideScope(for: test, testCase: testCase, performing: function)
    }
}

@_spi(Experimental) extension NoStallsTrait: CustomExecutionTrait {
    public func execute(
        _ function: @escaping @Sendable () async throws -> Void, for test: Test, testCase: Test.Case?
    ) async throws {
        if testCase == nil { return try await function() }
        try await provideScope(for: test, testCase: testCase, performing: function)
    }
}

@_spi(Experimental) extension NoLeaksTrait: CustomExecutionTrait {
    public func execute(
        _ function: @escaping @Sendable () async throws -> Void, for test: Test, testCase: Test.Case?
    ) async throws {
        if testCase == nil { return try await function() }
        try await provideScope(for: test, testCase: testCase, performing: function)
    }
}
#else
extension ZombieGuardedTrait: TestScoping {}
extension NoStallsTrait: TestScoping {}
extension NoLeaksTrait: TestScoping {}
#endif
