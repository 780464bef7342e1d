// Writes reports as JUnit XML for continuous-integration servers: a test suite with a failed test for each finding.

/// A report document as JUnit XML, in the form of Jenkins' `junit-10.xsd` and similar schemas: one `testsuite` in
/// `testsuites`. Each finding is a failed test, each suppressed finding a skipped test. Incomplete input and an
/// unexpected end of the program become tests with an error. Without findings and errors there is one passing test,
/// since many servers reject a report without tests.
public struct JUnitReport: Sendable {
    private let document: ReportDocument

    /// Creates the report for a document.
    ///
    /// - Parameter document: the report; its text is untrusted.
    public init(_ document: ReportDocument) { self.document = document }

    /// The XML in UTF-8, including its final line feed.
    public var text: String {
        let errors = self.errors
        var cases = document.findings.map(failed) + document.suppressedFindings.map(skipped) + errors
        if document.findings.isEmpty, errors.isEmpty { cases.append(test(name: "no findings", of: suiteName, "")) }
        let counts =
            " tests=\"\(cases.count)\" failures=\"\(document.findings.count)\" errors=\"\(errors.count)\""
        var text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        // The tests have no durations.
        text += "<testsuites name=\"zguard\"\(counts) time=\"0\">\n"
        text += "  <testsuite\(attribute("name", suiteName))\(counts) skipped=\"\(document.suppressedFindings.count)\""
        text += " time=\"0\" timestamp=\"\(timestamp)\">\n"
        text += properties + cases.joined()
        if !document.notes.isEmpty {
            text +=
                "    <system-err>\(document.notes.map { xmlText(visible($0)) }.joined(separator: "\n"))</system-err>\n"
        }
        return text + "  </testsuite>\n</testsuites>\n"
    }

    // Base names only: servers split the suite name at dots into packages and classes, and directories may contain
    // dots.
    private var suiteName: String {
        let programs = document.programs.map(Self.baseName)
        return document.title.map(Self.baseName) ?? (programs.isEmpty ? "zguard" : programs.joined(separator: ", "))
    }

    // "2026-01-02T03:04:05", UTC: the format has no fractions and no time zone.
    private var timestamp: Substring { document.made.description.prefix(19) }

    private var properties: String {
        var rows = [("zguard.version", document.version), ("zguard.suppressed", String(document.suppressedCount))]
        if let command = document.commandText { rows.append(("zguard.command", command)) }
        if let status = document.exitStatus { rows.append(("zguard.program.status", String(status))) }
        if let end = document.end?.text { rows.append(("zguard.program.end", end)) }
        if let coverage = document.coverage { rows.append(("zguard.coverage", coverage.text)) }
        let list = rows.map { "      <property\(attribute("name", $0.0))\(attribute("value", $0.1))/>\n" }
        return "    <properties>\n\(list.joined())    </properties>\n"
    }

    // MARK: Cases

    private func failed(_ finding: Finding) -> String {
        let kind = xmlText(visible(finding.kind.rawValue))
        let report = TextRenderer(style: TextStyle(directory: document.sourceRoot)).render(finding)
        return test(
            finding,
            "      <failure\(attribute("message", finding.sentence)) type=\"\(kind)\">\(xmlText(report))</failure>\n")
    }

    private func skipped(_ suppressed: ReportDocument.Suppressed) -> String {
        let reason = suppressed.reason.map { "suppressed: \($0)" } ?? "suppressed"
        return test(suppressed.finding, "      <skipped\(attribute("message", reason))/>\n")
    }

    // Tests with an error: for incomplete input, and for an unexpected end of the program.
    private var errors: [String] {
        var errors: [String] = []
        if !document.isComplete {
            errors.append(
                error("report is complete", "some findings could not be read or written", type: "incomplete"))
        }
        // A run that ended early has tested less than intended.
        if let end = document.end, end.needsExplanation, let text = end.text {
            errors.append(error("program ended by itself", text, type: "ended"))
        }
        return errors
    }

    private func error(_ name: String, _ message: String, type: String) -> String {
        test(name: name, of: suiteName, "      <error\(attribute("message", message)) type=\"\(type)\"/>\n")
    }

    // Servers identify tests across runs by class and name. So class and name contain no values that vary between runs;
    // the signature distinguishes two bugs in one function.
    private func test(_ finding: Finding, _ outcome: String) -> String {
        let signature = finding.signature ?? finding.computeSignature()
        let function = finding.primaryFrame?.function.map { " in \(cut($0))" } ?? ""
        return test(
            name: "\(finding.kind.rawValue)\(function) [\(signature)]",
            of: finding.program.map(Self.baseName) ?? suiteName,
            outcome)
    }

    private func test(name: String, of suite: String, _ outcome: String) -> String {
        let head = "    <testcase\(attribute("classname", suite))\(attribute("name", name)) time=\"0\""
        return outcome.isEmpty ? head + "/>\n" : head + ">\n\(outcome)    </testcase>\n"
    }

    // Names of C++ functions can have thousands of characters.
    private func cut(_ name: String) -> String {
        let limit = 200
        return name.utf8.count > limit && name.count > limit ? name.prefix(limit) + "…" : name
    }

    private func attribute(_ name: String, _ value: String) -> String { " \(name)=\"\(xmlText(visible(value)))\"" }

    private static func baseName(_ path: String) -> String { path.split(separator: "/").last.map(String.init) ?? path }
}
