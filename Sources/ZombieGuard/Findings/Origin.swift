// Defines the origin of a finding that was shipped from another machine.

extension Finding {
    /// Data that the shipper adds to a finding: an id, the machine, the program version and the tenant.
    public struct Origin: Hashable, Sendable {
        /// Id of the finding, thirty-two hexadecimal digits. It does not depend on how often, and by which process, the
        /// finding is shipped.
        public var id: String?
        /// The host name of the machine.
        public var host: String?
        /// The version of the program.
        public var version: String?
        /// The owner of the finding in a store that several tenants share.
        public var tenant: String?

        /// Creates an origin. Each parameter sets the property of the same name.
        public init(id: String? = nil, host: String? = nil, version: String? = nil, tenant: String? = nil) {
            self.id = id
            self.host = host
            self.version = version
            self.tenant = tenant
        }
    }
}

/// Returns a key whose byte order is the order of versions: "1.9" before "1.10", "1.2-rc1" before "1.2" before "1.2.1".
/// A missing version sorts first.
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
            // Characters whose byte is below "." (such as "+", which begins build metadata) become "-" and sort before
            // the version's end.
            key.unicodeScalars.append(scalar.value < 0x2d ? "-" : scalar)
        }
    }
    flush()
    return key + "."
}
