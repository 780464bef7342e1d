// A row of stored findings, and the finding that it becomes when its frames get names.

import ZombieGuard
import ZombieGuardCore

/// An earlier signature of a bug, and the current signature of the bug's findings.
struct FormerSignature: Hashable, Sendable {
    var tenant: String
    var former: String
    var signature: String
}

/// A row of zguard_findings.
struct StoredFinding: Hashable, Sendable {
    var tenant: String
    var signature: String
    var day: String
    var id: String
    var milliseconds: Int64
    var host: String
    var program: String
    var version: String
    var occurrences: Int64
    /// The finding as a line of JSON. Empty, with 0 occurrences, if the finding has moved to another signature. The row
    /// stays, so that the finding is not inserted again when a shipper sends it again with its old signature.
    var body: String

    /// The columns from which a row is made, in this order.
    static let columns = "id, at, host, program, version, occurrences, body"

    init(_ row: [SQLValue], tenant: String, signature: String, day: String) {
        (self.tenant, self.signature, self.day) = (tenant, signature, day)
        id = row[0].text ?? ""
        milliseconds = row[1].integer
        host = row[2].text ?? ""
        program = row[3].text ?? ""
        version = row[4].text ?? ""
        occurrences = row[5].integer
        body = row[6].text ?? ""
    }
}

/// Symbolicates findings that are stored already.
final class FindingNamer {
    private let name: (Finding) -> Finding

    /// - Parameter name: names the frames of a finding.
    init(_ name: @escaping (Finding) -> Finding) { self.name = name }

    /// Symbolicates findings with the symbols of `providers`. A frame without a build-id stays as it is.
    convenience init(_ symbolicator: Symbolicator, providers: [any SymbolProvider]) {
        symbolicator.needsBuildIDs = true
        for provider in providers { symbolicator.add(provider) }
        self.init { symbolicator.symbolicate($0) }
    }

    /// The finding with additional names; nil if there are none.
    ///
    /// - Parameters:
    ///   - finding: a finding, raw or finished.
    ///   - signature: the signature under which it is stored.
    ///   - builds: builds with new symbols, which may complete frames that already have a name.
    func named(_ finding: Finding, signature: String, builds: Set<String> = []) -> Finding? {
        guard finding.hasUnnamedFrames || finding.hasFramesOfTables(in: builds) else { return nil }
        var signed = finding
        if signed.signature != signature { (signed.signature, signed.formerSignatures) = (signature, []) }
        signed.addSignature()
        var named = name(signed)
        if named.names <= signed.names { return nil }
        if named.signature != signature, !named.isSigned(signature) {
            named.formerSignatures.insert(signature, at: 0)
        }
        return named
    }
}

extension Finding {
    /// Calls a function with each stack of the finding.
    private func forEachStack(_ body: ([Frame]) -> Void) {
        for stack in [stacks.access, stacks.free, stacks.alloc, stacks.previous, stacks.thrown] { body(stack) }
        for change in history { body(change.stack) }
        for thread in crash?.threads ?? [] { body(thread.stack) }
        for sample in stall?.sampled ?? [] { body(sample.stack) }
        for thread in (stall?.waits ?? []) + [stall?.holder].compactMap({ $0 }) { body(thread.stack) }
        for step in leak?.cycle ?? [] { body(step.alloc + [step.code].compactMap { $0 }) }
        for holder in holders ?? [] { body(holder.alloc + [holder.frame].compactMap { $0 }) }
    }

    /// Whether a frame with a build-id lacks a name. The frame from which the block's member is named counts, too.
    var hasUnnamedFrames: Bool {
        hasFrame { $0.function == nil && $0.file == nil && $0.buildID != nil } || block?.memberFrame?.buildID != nil
    }

    /// Whether there is a frame in any stack.
    var hasFrames: Bool { hasFrame { _ in true } }

    /// Whether there are frames of these builds that only a symbol table has named.
    func hasFramesOfTables(in builds: Set<String>) -> Bool {
        hasFrame { $0.isOfTable && builds.contains($0.buildID ?? "") }
    }

    private func hasFrame(where isWanted: (Frame) -> Bool) -> Bool {
        var found = false
        forEachStack { found = found || $0.contains(where: isWanted) }
        return found
    }

    /// Build-ids of frames without names.
    var unnamedBuilds: Set<String> {
        var builds: Set<String> = []
        forEachStack { stack in
            for frame in stack where frame.function == nil && frame.file == nil {
                if let id = frame.buildID { builds.insert(id) }
            }
        }
        return builds
    }

    /// Number of names: functions, lines, variables, class and member.
    fileprivate var names: Int {
        var count = (block?.className == nil ? 0 : 1) + (block?.member == nil ? 0 : 1)
        forEachStack { stack in
            for frame in stack { count += (frame.function == nil ? 0 : 1) + (frame.line == nil ? 0 : 1) }
        }
        for holder in holders ?? [] { count += holder.symbol == nil ? 0 : 1 }
        return count
    }
}

extension ShippedFinding {
    /// A stored finding whose frames have got names.
    ///
    /// - Parameters:
    ///   - finding: the named finding.
    ///   - row: the row of the finding as it was stored.
    init(_ finding: Finding, from row: StoredFinding) {
        var finding = finding
        // Store no author: the code that reads a file determines its author.
        finding.author = .own
        self.finding = finding
        line = finding.jsonLine
        source = ""
        id = row.id.filter { $0 != "-" }
        signature = finding.signature ?? row.signature
        milliseconds = row.milliseconds
        (day, tenant, host, version) = (row.day, row.tenant, row.host, row.version)
        let signature = self.signature
        formers = finding.formerSignatures.filter { Self.isDigits($0, count: 16) && $0 != signature }.map {
            FormerSignature(tenant: row.tenant, former: $0, signature: signature)
        }
    }

    /// The finding as it would be stored.
    var row: StoredFinding {
        StoredFinding(
            [
                .text(id), .integer(milliseconds), .text(host), .text(program), .text(version), .integer(occurrences),
                .text(line),
            ], tenant: tenant, signature: signature, day: day)
    }
}
