// Renders the search form of the list of groups: one box for words and terms, the state and the order.

import ZombieGuard

extension FleetPages {
    /// The form, filled with the conditions in the page's URL.
    func searchForm(_ query: [String: String], _ order: FleetReader.Order) -> String {
        // The box also shows conditions from parameters of their own (kind=crash).
        var text = query["q"] ?? ""
        for key in FleetSearch.Key.allCases {
            if let value = query[key.rawValue], !value.isEmpty { text = FleetSearch.text(text, key, value) }
        }
        var body = """
            <form class="find" action="/" method="get" role="search"><input id="q" type="search" name="q" \
            placeholder="Search: cart, class:Cart, host:web-7, since:7d" aria-label="search" aria-describedby="hint" \
            value="\(htmlText(text, cutAt: 500))"><select name="state" aria-label="state">
            """
        for (value, label, _) in Self.states {
            let isChosen = value == query["state"] ?? ""
            body += "<option value=\"\(value)\"\(isChosen ? " selected" : "")>\(label)</option>"
        }
        body += "</select><select name=\"order\" aria-label=\"order\">"
        for (choice, label) in [(FleetReader.Order.often, "most often"), (.last, "last seen"), (.new, "newest")] {
            body += "<option value=\"\(choice.rawValue)\"\(choice == order ? " selected" : "")>\(label)</option>"
        }
        body += "</select>"
        if let tenant = HTTPRequest.tenant(in: query) {
            body += "<input type=\"hidden\" name=\"tenant\" value=\"\(htmlText(tenant, cutAt: 500))\">"
        }
        return body + "<button>Find</button></form>"
    }

    static let searchHint = """
        <p class="hint" id="hint">Words, or <code>class:Cart</code> <code>member:add</code> <code>function:main</code> <code>host:web-7</code> \
        <code>program:shop</code> <code>version:1.10</code> <code>kind:crash</code> <code>since:7d</code> <code>until:2026-11-20</code> \
        <code>new:1.10</code> (not before that version). The beginning of a name is enough; <code>class:"Cart"</code> is the whole one.</p>

        """
}
