// Samples equal findings: for each signature, the first findings and a share of the later ones are stored with their
// stacks.

/// Decides which findings lose their stacks and are only counted.
public struct Sampling: Sendable {
    /// Share, from 0 to 1, of a signature's later findings that are stored whole. The first `first` ones always are.
    public var share: Double
    /// Number of findings of each signature that are stored whole before sampling starts.
    public var first: Int64

    /// Makes a rule. Each parameter sets the property of the same name.
    public init(share: Double, first: Int64 = 100) {
        self.share = share
        self.first = first
    }

    /// Parses a share, as in `--keep-share`.
    ///
    /// - Parameter text: a percentage such as "10%".
    /// - Throws: ``ValueError`` for any other text.
    public init(_ text: String) throws(ValueError) {
        guard text.hasSuffix("%"), let percent = Double(digits: text.dropLast()), (0...100).contains(percent) else {
            throw ValueError(expected: "0% to 100%")
        }
        self.init(share: percent / 100)
    }

    /// Whether to store a finding whole, after `count` findings with the same signature.
    ///
    /// - Parameter place: a number in 0..<1 that is independent of the finding's content.
    package func keeps(at place: Double, after count: Int64) -> Bool { count < first || place < share }
}

extension Finding {
    /// The finding without stacks, for counting only.
    package var thinned: Finding {
        var signed = self
        if signature == nil { signed.addSignature() }
        var short = Finding(
            kind: kind, access: access, confidence: confidence, count: count, processID: processID, program: program,
            time: time, signature: signed.signature)
        short.formerSignatures = signed.formerSignatures
        short.firstSeen = firstSeen
        short.lastSeen = lastSeen
        short.origin = origin
        return short
    }
}

extension ReportStore {
    /// Counts the findings of each signature in this store. Skips reports that cannot be read.
    ///
    /// - Parameters:
    ///   - signatures: signatures to count; nil: all.
    ///   - tenant: owner of the findings; nil: any.
    ///   - most: once all `signatures` have this count, stop reading.
    /// - Returns: counts by signature.
    /// - Throws: ``StoreError`` if the directory cannot be read.
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
