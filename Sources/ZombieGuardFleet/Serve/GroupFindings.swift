// Lists the findings of a group page by page, with links to the previous and the next finding.

import ZombieGuard

/// The findings of a group around the one that is shown.
struct GroupFindings {
    private let findings: [FleetReader.Stored]
    /// Number of the finding that is shown; the latest finding has number 1.
    private let number: Int64
    /// Number of the first of ``findings``.
    private let first: Int64
    private let count: Int64
    /// The finding that is shown; nil if none can be read.
    let shown: Finding?

    private static let ofPage = 10

    /// Reads a page of findings.
    ///
    /// - Parameters:
    ///   - query: query of the request; `finding` is the number of the finding.
    ///   - group: the group; nil: there is none.
    ///   - tenant: owner of the group.
    ///   - reader: the store.
    init(
        _ query: [String: String], _ group: FleetReader.Group?, tenant: String?, _ reader: FleetReader
    ) throws(FleetError) {
        let count = group?.findings ?? 0
        let wanted = query["finding"].flatMap { Int64(digits: $0) }.map { max(1, min($0, max(1, count))) }
        let first = ((wanted ?? 1) - 1) / Int64(Self.ofPage) * Int64(Self.ofPage) + 1
        (self.count, self.first) = (count, first)
        if let group {
            findings = try reader.findings(
                of: group.signature, tenant: tenant, limit: Self.ofPage, offset: Int(clamping: first - 1))
        } else {
            findings = []
        }
        let read = findings.map { Finding(jsonLine: $0.line) }
        var place = Int((wanted ?? first) - first)
        // Prefer a finding with stacks: sampling may have removed them.
        if wanted == nil {
            place =
                read.firstIndex { finding in
                    guard let stacks = finding?.stacks else { return false }
                    return !stacks.access.isEmpty || !stacks.free.isEmpty || !stacks.alloc.isEmpty
                } ?? 0
        }
        number = first + Int64(place)
        shown = read.indices.contains(place) ? read[place] : nil
    }

    /// The list, with links.
    ///
    /// - Parameters:
    ///   - path: path of the group's page.
    ///   - query: query of the request.
    func list(path: String, _ query: [String: String]) -> String {
        if findings.isEmpty { return "" }
        let tenant = HTTPRequest.tenant(in: query).map { "&amp;tenant=\(urlText($0))" } ?? ""
        func link(_ number: Int64, _ label: String, _ more: String = "") -> String {
            "<a href=\"\(path)?finding=\(number)\(tenant)#finding\"\(more)>\(label)</a>"
        }
        var text =
            "<h3 id=\"finding\">Finding \(number) of \(count), the latest first</h3><nav class=\"pages\" aria-label=\"findings\">"
        if number > 1 { text += link(1, "latest") + link(number - 1, "previous", " rel=\"prev\"") }
        if number < count { text += link(number + 1, "next", " rel=\"next\"") + link(count, "oldest") }
        text +=
            "</nav><table class=\"finds\"><thead class=\"vh\"><tr><th>number<th>time<th>machine<th>version</thead><tbody>"
        for (index, finding) in findings.enumerated() {
            let own = first + Int64(index)
            let version = finding.version.isEmpty ? "none" : htmlText(finding.version, cutAt: 60)
            text += "<tr\(own == number ? " aria-current=\"true\"" : "")><td>\(link(own, "\(own)"))"
            text +=
                "<td><time>\(htmlText(finding.time.description))</time><td>\(htmlText(finding.host, cutAt: 120))<td>\(version)"
        }
        return text + "</tbody></table>\n"
    }
}
