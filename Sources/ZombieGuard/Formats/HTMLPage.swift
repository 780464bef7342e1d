// Renders the head of self-contained pages. They use neither network nor fonts: a content security policy forbids
// everything but the page's own styles and script, and `data:` images.

package enum HTMLPage {
    /// A style sheet or script, and its SHA-256 in base64 for the policy.
    package struct Part: Sendable {
        package var text: String
        package var digest: String

        package init(_ text: String, digest: String) {
            self.text = text
            self.digest = digest
        }
    }

    /// Renders everything before the body.
    ///
    /// - Parameters:
    ///   - title: title of the page; untrusted.
    ///   - styles: style sheets, in the order in which they apply.
    ///   - script: the script at the end of the page.
    ///   - version: version of zguard.
    package static func head(title: String, styles: [Part], script: Part, version: String) -> String {
        let allowed = styles.map { "'sha256-\($0.digest)'" }.joined(separator: " ")
        let policy =
            "default-src 'none'; style-src \(allowed); script-src 'sha256-\(script.digest)'; img-src data:; "
            + "base-uri 'none'; form-action 'none'"
        return """
            <!DOCTYPE html>
            <html lang="en">
            <head>
            <meta charset="utf-8">
            <meta http-equiv="Content-Security-Policy" content="\(policy)">
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <meta name="color-scheme" content="light dark">
            <meta name="generator" content="zguard \(htmlText(version))">
            <title>\(htmlText(title)) – zguard</title>
            <link rel="icon" href="data:,">
            \(styles.map { "<style>\($0.text)</style>" }.joined(separator: "\n"))
            </head>

            """
    }
}
