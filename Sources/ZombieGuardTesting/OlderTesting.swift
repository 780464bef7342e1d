// What Swift Testing of older toolchains lacks, in one place: each is done without or in another way, and a line says so.

import Glibc

#if compiler(<6.1)
@_spi(Experimental) import Testing
#else
import Testing
#endif

/// The parts of Swift Testing that came after Swift 6.0.
enum OlderTesting {
    /// Keeps a report beside the issue that is recorded next.
    static func attach(_ report: String, at location: SourceLocation) {
        #if compiler(>=6.2)
        Attachment.record(Array(report.utf8), named: "zombie-report.txt", sourceLocation: location)
        #else
        _ = noAttachments
        #endif
    }

    /// Says something about a test that does not make it fail.
    static func warn(_ message: String, at location: SourceLocation) {
        #if compiler(>=6.3)
        Issue.record(Comment(rawValue: message), severity: .warning, sourceLocation: location)
        #else
        say("\(location.fileID):\(location.line): warning: \(message)")
        #endif
    }

    /// Calls `body` as it is. The compiler of Swift 6.0 does not see that a function which is isolated to its caller's actor calls a
    /// closure of that caller on the same actor; of those of the standard library it does not ask.
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
    // Once is enough.
    private static let noAttachments: Void = say(
        "ZombieGuard: reports are not attached to issues: Swift Testing has attachments since Swift 6.2")
    #endif

    private static func say(_ line: String) {
        var text = line + "\n"
        text.withUTF8 { _ = write(2, $0.baseAddress, $0.count) }
    }
}

extension SourceLocation {
    /// The path of the file, as the compiler was given it.
    var path: String {
        #if compiler(>=6.3)
        filePath
        #else
        _filePath
        #endif
    }
}

#if compiler(<6.1)
// Before it was published as TestScoping, the protocol had another name and was asked for suites and functions as well as for their cases.
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
#else
extension ZombieGuardedTrait: TestScoping {}
extension NoStallsTrait: TestScoping {}
#endif
