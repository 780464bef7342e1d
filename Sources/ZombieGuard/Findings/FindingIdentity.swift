// Identifies a finding in both its raw form, as the process wrote it, and its finished form, as zguard rewrote it.

/// Equal for a raw finding and its finished form, no matter which frames were symbolicated or inlined. Two findings of
/// one process compare different.
package struct FindingIdentity: Hashable {
    private let kind: Finding.Kind
    private let process: Int?
    private let thread: Int?
    private let time: String?
    private let address: Address?
    private let places: [Address]

    package init(_ finding: Finding) {
        kind = finding.kind
        process = finding.processID
        thread = finding.thread?.id
        time = finding.time
        address = finding.address
        // Inlined frames share one address, so repeats are skipped. The access stack is ignored: for a crash zguard may
        // have captured that stack itself.
        var places: [Address] = []
        for frame in finding.stacks.free + finding.stacks.alloc where places.last != frame.pc {
            places.append(frame.pc)
        }
        self.places = places
    }
}
