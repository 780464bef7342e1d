// Identifies a finding in both its raw form, as the process wrote it, and its finished form, as zguard rewrote it.

/// Identity of a finding: equal for a raw finding and its finished form, even if symbolication has named frames and
/// added inlined ones in between. Two findings of one process have different identities.
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
        // Inlined frames share one address, so repeated addresses are skipped. The access stack is ignored: for a
        // crash, zguard may have captured that stack itself.
        var places: [Address] = []
        for frame in finding.stacks.free + finding.stacks.alloc where places.last != frame.pc {
            places.append(frame.pc)
        }
        self.places = places
    }
}
