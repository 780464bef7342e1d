// Where a finding comes from, once it has left the machine that it was made on.

extension Finding {
    /// What the shipper adds to a finding: which one it is, and whose.
    public struct Origin: Hashable, Codable, Sendable {
        /// Thirty-two hexadecimal digits: the same however often, and by whomever, the finding is shipped.
        public var id: String?
        /// The name of the machine.
        public var host: String?
        /// The version of the program.
        public var version: String?
        /// Whose it is, where several share a store.
        public var tenant: String?

        /// Makes an origin of its parts. Each parameter is the property of its name.
        public init(id: String? = nil, host: String? = nil, version: String? = nil, tenant: String? = nil) {
            self.id = id
            self.host = host
            self.version = version
            self.tenant = tenant
        }

        package var json: JSONText {
            .object([
                ("id", id.map { .string($0) }), ("host", host.map { .string($0) }),
                ("version", version.map { .string($0) }), ("tenant", tenant.map { .string($0) }),
            ])
        }
    }
}

/// A version as a text whose order is that of versions: "1.9" before "1.10", "1.2-rc1" before "1.2" before "1.2.1". What has no
/// version comes before all.
package func versionKey(_ version: String?) -> String {
    guard let version, !version.isEmpty else { return "" }
    var key = ""
    var digits = ""
    func flush() {
        if digits.isEmpty { return }
        let number = digits.drop { $0 == "0" }.prefix(99)
        key += (number.count < 10 ? "0" : "") + "\(number.count)" + number
        digits = ""
    }
    for scalar in version.unicodeScalars.prefix(120) {
        if ("0"..."9").contains(scalar) {
            digits.unicodeScalars.append(scalar)
        } else {
            flush()
            // Build metadata and whatever sorts below a point would come before the end.
            key.unicodeScalars.append(scalar.value < 0x2d ? "-" : scalar)
        }
    }
    flush()
    return key + "."
}
