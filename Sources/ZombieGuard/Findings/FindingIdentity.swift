// Whether two findings are one: the raw line that a process wrote and the finished one that zguard made of it.

/// Equal for a raw finding and the finished one, however many frames were named or inlined; different for two of one
/// process.
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
        // Inlined functions are frames of one address. The access stack may be zguard's own, of a crash.
        var places: [Address] = []
        for frame in finding.stacks.free + finding.stacks.alloc where places.last != frame.pc {
            places.append(frame.pc)
        }
        self.places = places
    }
}
