// The forms for decisions about a group, on the group's page. They need no script.

import ZombieGuard

enum TriageForms {
    /// The forms; "" for those who may not decide.
    ///
    /// - Parameters:
    ///   - signature: signature of the group.
    ///   - query: the query with the tenant, or "".
    ///   - user: who looks at the page.
    static func text(for signature: String, _ query: String, _ user: User?) -> String {
        guard let user, user.roles.contains(.triage) else { return "" }
        func form(_ action: String, _ button: String, _ fields: [(name: String, label: String)]) -> String {
            let inputs = fields.map { name, label in
                "<input name=\"\(name)\" placeholder=\"\(label)\" aria-label=\"\(button): \(label)\"\(name == "comment" ? " class=\"remark\"" : "")> "
            }
            return """
                <form action="/group/\(urlText(signature))/triage\(query)" method="post"><input type="hidden" name="action" value="\(action)">\
                \(inputs.joined())<button>\(button)</button></form>

                """
        }
        let comment = (name: "comment", label: "comment")
        return "<section class=\"decide\" aria-label=\"Decide\">\n"
            + form("resolve", "Resolve", [("version", "in version"), comment])
            + form("mute", "Mute", [("until", "until, e.g. 7d"), comment])
            + form("assign", "Assign", [("to", "to whom")]) + form("comment", "Comment", [comment])
            + form("reopen", "Reopen", []) + "</section>\n"
    }
}
