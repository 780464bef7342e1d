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

    /// A share as `--keep-share` says it.
    ///
    /// - Parameter text: such as "10%".
    /// - Throws: ``ValueError`` where it is no share.
    public init(_ text: String) throws(ValueError) {
        guard text.hasSuffix("%"), let percent = Double(digits: text.dropLast()), (0...100).contains(percent) else {
            throw ValueError(expected: "0% to 100%")
        }
        self.init(share: percent / 100)
    }

    /// By its place in an order that has nothing to do with what was found.
    ///
    /// - Parameter place: from 0 to less than 1.
    package func keeps(at place: Double, after count: Int64) -> Bool { count < first || place < share }
}

extension Finding {
    /// The finding as one that is only counted.
    package var thinned: Finding {
        var short = Finding(
            kind: kind, access: access, confidence: confidence, count: count, processID: processID, program: program,
            time: time, signature: signature ?? computeSignature())
        short.firstSeen = firstSeen
        short.lastSeen = lastSeen
        short.origin = origin
        return short
    }
}

extension ReportStore {
    /// How many findings of each signature lie in this store. Reports that cannot be read count for nothing.
    ///
    /// - Parameters:
    ///   - signatures: those to be counted; nil: all.
    ///   - tenant: whose findings; nil: everybody's.
    ///   - most: where all of these have so many, the rest is not read.
    /// - Returns: counts by signature.
    /// - Throws: ``StoreError`` where the directory cannot be read.
    package func counts(
        of signatures: Set<String>? = nil, tenant: String? = nil, upTo most: Int64 = .max
    ) throws(StoreError) -> [String: Int64] {
        var counts: [String: Int64] = [:]
        var missing = signatures?.count ?? .max
        for file in try files(order: .newestFirst) where missing > 0 {
            guard var reader = try? reader(of: file) else { continue }
            while let entry = try? reader.next() {
                guard case .finding(let finding, _) = entry, let signature = finding.signature,
                    signatures?.contains(signature) ?? true, tenant == nil || finding.origin?.tenant == tenant
                else { continue }
                counts[signature, default: 0] += 1
                if counts[signature] == most { missing -= 1 }
            }
        }
        return counts
    }
}
