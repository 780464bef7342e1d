// Symbolicates the findings of a store with the symbols in the store (`zguard symbols apply`).

import ZombieGuard
import ZombieGuardCore

extension SymbolStore {
    /// What ``apply(builds:sources:)`` did.
    public struct Application: Hashable, Sendable {
        /// Number of findings in the store that got names. Findings of a directory are named whenever they are read.
        public var findings = 0
        /// Number of groups that had these findings before, and that have them now.
        public var groupsBefore = 0, groupsAfter = 0
        /// Signatures whose findings turned out to be of several bugs, each with the current signatures of these
        /// findings.
        public var apart: [String: [String]] = [:]
        /// Why modules have no names, or incomplete ones.
        public var notes: [String] = []
    }

    /// Symbolicates findings in a database whose symbols arrived after them, computes their signatures again, and moves
    /// them to the groups with these signatures. May be interrupted and repeated at any time, and run in parallel with
    /// shippers and other runs. Changes nothing in a directory, whose findings are symbolicated when they are read.
    ///
    /// - Parameters:
    ///   - builds: only findings with frames of these builds; empty: all.
    ///   - sources: where to look for symbols, besides those of the store.
    ///   - mostUnpacked: limit of the decompressed sections in memory, in bytes.
    /// - Returns: what was done.
    /// - Throws: ``FleetError`` if the store cannot be read or written.
    public func apply(
        builds: [String] = [], sources: SymbolSources = SymbolSources(), mostUnpacked: UInt64 = .max
    ) throws(FleetError) -> Application {
        let database: any Database
        switch address {
        case .sqlite(let path): database = try SQLiteFleet(existing: path)
        case .postgres(let address): database = try PostgresFleet(address: address)
        case .directory, .web, .openTelemetry: return Application()
        }
        let symbolicator = Symbolicator(sources: sources)
        let provider = try provider()
        provider?.budget.most = mostUnpacked
        let namer = FindingNamer(symbolicator, providers: [provider].compactMap { $0 })
        let renaming = Renaming(database, tenant: tenant, namer: namer, builds: builds)
        try renaming.run()
        let result = renaming.result
        return Application(
            findings: result.findings, groupsBefore: result.before.count, groupsAfter: result.after.count,
            apart: result.apart.mapValues { $0.sorted() }, notes: symbolicator.notes)
    }

    /// Build-ids of modules in a directory's findings that have frames without names, and of which the store has no
    /// file.
    ///
    /// - Returns: the build-ids; empty for a database.
    /// - Throws: ``FleetError`` if the directory cannot be read.
    public func missingBuilds() throws(FleetError) -> Set<String> {
        guard case .directory(let path) = address else { return [] }
        var builds: Set<String> = []
        do {
            let store = ReportStore(directory: path)
            for file in try store.files() {
                guard var reader = try store.reader(of: file) else { continue }
                while let entry = try reader.next() ?? reader.finish() {
                    if case .finding(let finding, _) = entry { builds.formUnion(finding.unnamedBuilds) }
                }
            }
        } catch {
            throw FleetError("cannot read '\(visible(path))': \(error)")
        }
        return builds.subtracting(try entries().map(\.buildID))
    }
}

/// Symbolicators for readers of a store, one for each tenant. They notice later uploads. Not thread-safe.
final class StoreSymbolicators {
    private let address: FleetAddress
    private let sources: SymbolSources
    private let needsBuildIDs: Bool
    private var known: [String: (version: String?, symbolicator: Symbolicator)] = [:]

    private static let most = 16
    /// Decompressed bytes that stay in memory between pages.
    private static let mostKept: UInt64 = 128 << 20

    init(_ address: FleetAddress, sources: SymbolSources, needsBuildIDs: Bool) {
        (self.address, self.sources, self.needsBuildIDs) = (address, sources, needsBuildIDs)
    }

    /// Names the frames of a finding.
    func symbolicate(_ finding: Finding, of tenant: String?) -> Finding {
        defer {
            if known.values.reduce(0, { $0 + $1.symbolicator.decompressedBytes }) > Self.mostKept { known = [:] }
        }
        return symbolicator(tenant).symbolicate(finding)
    }

    private func symbolicator(_ tenant: String?) -> Symbolicator {
        let store = SymbolStore(address, tenant: tenant)
        let keeper = try? store.keeper()
        let version = (try? keeper?.version()) ?? nil
        if let one = known[store.tenant], one.version == version { return one.symbolicator }
        let symbolicator = Symbolicator(sources: sources)
        symbolicator.needsBuildIDs = needsBuildIDs
        if version != nil, let keeper {
            keeper.budget.most = SymbolStore.mostUnpacked
            symbolicator.add(keeper)
        }
        if known.count >= Self.most { known = [:] }
        known[store.tenant] = (version, symbolicator)
        return symbolicator
    }
}

/// Symbolicates the findings of a directory as they are read.
final class DirectoryNames {
    /// Version of the uploaded symbols.
    let version: String?
    private let path: String
    private var namers: [String: FindingNamer?] = [:]
    private var formers: Set<FormerSignature> = []

    init(_ path: String, version: String?) {
        self.path = path
        self.version = version
    }

    /// A text that changes if symbols are uploaded or removed, by any tenant; nil if there are none.
    static func version(in path: String) -> String? {
        let names = (try? StoreDirectory(opening: path).names()) ?? []
        let versions = names.filter { $0.hasPrefix(SymbolDirectory.name) }.sorted().compactMap { name in
            ((try? SymbolDirectory(path, name: name).version()) ?? nil).map { "\(name)\n\($0)" }
        }
        return versions.isEmpty ? nil : versions.joined(separator: "\n")
    }

    /// The finding with the names from the uploaded symbols; nil if these add no name.
    func named(_ shipped: ShippedFinding) -> ShippedFinding? {
        guard version != nil, let namer = namer(of: shipped.tenant),
            let finding = namer.named(shipped.finding, signature: shipped.signature)
        else { return nil }
        let named = ShippedFinding(finding, from: shipped.row)
        formers.formUnion(named.formers)
        return named
    }

    /// The earlier signatures of the findings named since the last call.
    func takeFormers() -> [FormerSignature] {
        defer { formers = [] }
        return Array(formers)
    }

    private func namer(of tenant: String) -> FindingNamer? {
        if let known = namers[tenant] { return known }
        let provider = (try? SymbolStore(.directory(path), tenant: tenant).provider()) ?? nil
        let namer = provider.map { FindingNamer(Symbolicator(), providers: [$0]) }
        namers[tenant] = .some(namer)
        return namer
    }
}
