// swift package zguard-test: builds the tests of a package and runs them under zguard.

import Foundation
import PackagePlugin

@main struct ZGuardTest: CommandPlugin {
    private static let table = PluginArguments.Table(
        verb: "zguard-test", synopsis: "[OPTION…] [FILTER…]",
        summary:
            "Builds the package's tests and runs them guarded by ZombieGuard. FILTER is a regular expression, as for\n"
            + "'swift test --filter': tests that one of them matches are run.",
        options: [
            .init(name: "--filter", value: "REGEX", text: "the same as FILTER"),
            .init(name: "--skip", value: "REGEX", text: "skip tests that match"),
            .init(
                name: "--parallel", text: "run tests of Swift Testing in parallel (default); those of XCTest never are"),
            .init(name: "--no-parallel", text: "run one test at a time"),
            .init(name: "--disable-xctest", text: "leave out the tests of XCTest"),
            .init(name: "--disable-swift-testing", text: "leave out the tests of Swift Testing"),
        ] + PluginArguments.forwarded + PluginArguments.common)

    // The same defaults as in guarded test bundles (docs/TESTING-HELPERS.md): tests go on after a finding, and more
    // blocks are guarded.
    private static let settings = ["on_finding=continue", "isolated_overhead=20%", "stack_overhead=20%"]
    // Options for the default profile only; other profiles set these options themselves.
    private static let guardSettings = ["quarantine_bytes=32m", "quarantine_per_context=16"]

    func performCommand(context: PluginContext, arguments: [String]) async throws {
        perform(arguments, Self.table) { arguments in
            let run = try GuardedRun(context, packageManager, arguments)
            let filters = TestFilters(
                wanted: try (arguments.operands + arguments.all("--filter")).map(TestFilters.pattern),
                skipped: try arguments.all("--skip").map(TestFilters.pattern))
            let bundle = try testBundle(context, run)
            var plan = TestPlan(
                bundle: bundle, filters: filters, hasOwnEntryPoint: Self.hasOwnEntryPoint(context.package))
            if arguments.has("--disable-xctest") { plan.xctest = nil }
            if arguments.has("--disable-swift-testing") { plan.swiftTesting = nil }
            if arguments.has("--no-parallel") { plan.swiftTesting?.append("--no-parallel") }
            guard
                let command = try plan.command(
                    scriptIn: context.pluginWorkDirectoryURL, for: context.package.displayName)
            else {
                throw PluginFailure(message: filters.isEmpty ? "the package has no tests to run" : "no test matches")
            }
            if plan.isScript,
                (arguments.forwarded + [run.inheritedOptions]).contains(where: { $0.contains("children=ignore") })
            {
                throw PluginFailure(
                    message:
                        "with 'children=ignore' the tests of one library can be run at a time: '--disable-xctest' or "
                        + "'--disable-swift-testing'", status: .usage)
            }
            var settings = Self.settings
            if !arguments.has("--profile") { settings += Self.guardSettings }
            if arguments.all("--profile").last == "fence" { settings = ["on_finding=continue"] }
            let options = settings.flatMap { ["-o", $0] } + arguments.forwarded
            let status = try run.run(command[0], Array(command.dropFirst()), options: options)
            if status == TestPlan.noTests { throw PluginFailure(message: "no test matches") }
            return status
        }
    }

    /// Builds all targets, because tests may run the package's programs, and returns the test bundle.
    private func testBundle(_ context: PluginContext, _ run: GuardedRun) throws -> URL {
        let isTest = { (target: any Target) in (target as? any SourceModuleTarget)?.kind == .test }
        guard context.package.targets.contains(where: isTest) else {
            throw PluginFailure(message: "package '\(context.package.displayName)' has no test targets")
        }
        let result = try run.build(.all(includingTests: true), "the tests")
        let name = "\(context.package.displayName)PackageTests.xctest"
        // The work directory is <scratch>/plugins/<plugin>/outputs.
        let scratch = context.pluginWorkDirectoryURL.deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let folders =
            result.builtArtifacts.map { $0.url.deletingLastPathComponent() }
            + ["debug", "release"].map { scratch.appendingPathComponent($0) }
        guard let bundle = folders.map({ $0.appendingPathComponent(name) }).first(where: { isFile($0) }) else {
            throw PluginFailure(message: "the build left no '\(name)'")
        }
        return bundle
    }

    private func isFile(_ url: URL) -> Bool { FileManager.default.isExecutableFile(atPath: url.path) }

    /// Whether the package has an entry point of its own for tests, beside or above the folder of a test target.
    /// Source: findTestEntryPoint in SwiftPM's PackageBuilder.swift.
    private static func hasOwnEntryPoint(_ package: Package) -> Bool {
        let root = package.directoryURL.standardizedFileURL.pathComponents
        return package.targets.contains { target in
            guard let target = target as? any SourceModuleTarget, target.kind == .test,
                var folder = target.sourceFiles.first(where: { $0.type == .source })?.url.standardizedFileURL
            else { return false }
            while folder.pathComponents.count > root.count {
                folder.deleteLastPathComponent()
                for name in ["XCTMain.swift", "LinuxMain.swift"]
                where FileManager.default.fileExists(atPath: folder.appendingPathComponent(name).path) {
                    return true
                }
            }
            return false
        }
    }
}
