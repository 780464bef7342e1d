// Of equal findings, once there are enough, only a share is kept whole.

/// Which findings go without their stacks: they are counted, and nothing else.
public struct Sampling: Sendable {
    /// From 0 to 1.
    public var share: Double
    /// So many of a signature are kept whole.
    public var first: Int64

    /// Makes a rule of its parts. Each parameter is the property of its name.
    public init(share: Double, first: Int64 = 100) {
        self.share = share
        self.first = first
    }

    /// By the id: the same one, shipped again, is treated alike.
    func keeps(_ finding: ShippedFinding) -> Bool {
        let digits = UInt32(finding.id.prefix(8), radix: 16) ?? 0
        return Double(digits) < share * 4_294_967_296
    }
}

extension ShippedFinding {
    /// The finding as one that is only counted.
    var thinned: ShippedFinding {
        var short = Finding(
            kind: finding.kind, access: finding.access, confidence: finding.confidence, count: finding.count,
            processID: finding.processID, program: finding.program, time: finding.time, signature: signature)
        short.firstSeen = finding.firstSeen
        short.lastSeen = finding.lastSeen
        short.origin = Finding.Origin(
            id: id, host: host, version: version.isEmpty ? nil : version, tenant: tenant)
        var thinned = self
        thinned.line = short.jsonLine
        return thinned
    }
}
