// The page on which a browser logs in with a token.

import ZombieGuard

enum LoginPage {
    /// The form.
    ///
    /// - Parameters:
    ///   - target: path and query of the page that was asked for.
    ///   - isWrong: whether a token was given that is not valid.
    static func page(to target: String, isWrong: Bool = false) -> HTTPResponse {
        let problem = isWrong ? "<p class=\"notes\" role=\"alert\">This token is not valid.</p>" : ""
        return HTTPResponse(
            status: 401,
            body: """
                \(FleetPageStyle.head("Log in"))
                <main class="login"><h1>Findings</h1>\(problem)
                <form action="/login" method="post"><input type="hidden" name="to" value="\(htmlText(self.target(target), cutAt: 2000))">\
                <label for="token">Token</label> <input id="token" name="token" type="password" autocomplete="current-password" required autofocus> \
                <button>Log in</button></form></main>
                </body>
                </html>

                """)
    }

    /// A page that says what was refused.
    static func refusal(_ status: Int, _ text: String) -> HTTPResponse {
        HTTPResponse(
            status: status,
            body: """
                \(FleetPageStyle.head("Refused"))
                <main class="login"><h1>Findings</h1><p class="notes" role="alert">\(htmlText(text, cutAt: 1000))</p>
                <p><a href="/">All groups</a></p>
                <form action="/logout" method="post"><button>Log out</button></form></main>
                </body>
                </html>

                """)
    }

    /// A page that loads itself once more.
    static func again() -> HTTPResponse {
        HTTPResponse(
            status: 401,
            body: FleetPageStyle.head("Findings", more: "<meta http-equiv=\"refresh\" content=\"0\">")
                + "\n</body>\n</html>\n")
    }

    /// A response that sets a cookie and redirects to another page.
    static func leave(_ cookie: String, to target: String = "/") -> HTTPResponse {
        HTTPResponse(status: 303, type: "text/plain", body: "").adding("Set-Cookie", cookie).adding(
            "Location", target)
    }

    /// A path of this server; "/" if the text is anything else. A login must not lead to another site.
    static func target(_ text: String?) -> String {
        guard let text, text.hasPrefix("/"), !text.hasPrefix("//"), !text.hasPrefix("/login"),
            !text.hasPrefix("/logout"), text.utf8.count <= 2000,
            text.utf8.allSatisfy({ (0x21...0x7e).contains($0) && $0 != UInt8(ascii: "\\") })
        else { return "/" }
        return text
    }
}
