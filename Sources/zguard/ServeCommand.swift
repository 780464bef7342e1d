// zguard serve: shows a store of findings as web pages, to this machine or, with tokens, to a team.

import Glibc
import ZombieGuard
import ZombieGuardFleet

struct ServeCommand {
    private let address: FleetAddress
    private let port: UInt16
    private let listen: ListenAddress
    private let tokens: String?
    private let certificate: (chain: String, key: String)?
    private let symbols: SymbolSources

    private static let standardPort: UInt16 = 7070
    /// Several threads, because a page may wait for a database or a debuginfod server.
    private static let threads = 6

    init(_ arguments: Arguments) throws(Failure) {
        func wrong(_ flag: String, _ text: String, _ expected: String) -> Failure {
            .usage("option '\(flag)' has the bad value '\(visible(text))': expected \(expected)")
        }
        address = try arguments.store(to: "serve", otherwise: "cannot be read from")
        port =
            try arguments.value("--port").map { text throws(Failure) in
                guard let port = UInt16(digits: text) else { throw wrong("--port", text, "0 to 65535") }
                return port
            } ?? Self.standardPort
        listen =
            try arguments.value("--listen").map { text throws(Failure) in
                guard let address = ListenAddress(text) else {
                    throw wrong("--listen", text, "an address in numbers, such as 0.0.0.0 or ::1")
                }
                return address
            } ?? .loopback
        tokens = arguments.value("--tokens")
        certificate = try arguments.value("--tls").map { text throws(Failure) in
            let paths = text.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
            guard paths.count == 2, !paths.contains("") else { throw wrong("--tls", text, "CERT,KEY") }
            return (paths[0], paths[1])
        }
        symbols = try ReportOptions(arguments).symbols
        if tokens == nil, arguments.has("--listen") || certificate != nil {
            throw .usage(
                "'--listen' and '--tls' need '--tokens'", hint: "'zguard token FILE NAME' makes the file")
        }
        if !listen.isLoopback, certificate == nil, !arguments.has("--plain-http") {
            throw .usage(
                "tokens would travel to \(listen) unencrypted",
                hint: "--tls CERT,KEY, or --plain-http if that is wanted")
        }
    }

    func run() throws -> Int32 {
        do throws(FleetError) { try serve() } catch { throw Failure("\(error)", hint: error.hint) }
    }

    private func serve() throws(FleetError) -> Never {
        // Reports an unreadable store now instead of on a page.
        let first = FleetSource(address)
        _ = try first.ask { (reader) throws(FleetError) in try reader.totals(FleetFilter()) }
        let access = AccessControl(
            try tokens.map { (path) throws(FleetError) in try TokenFile(path, warn: { Output.warn($0) }) },
            isEncrypted: certificate != nil)
        let loaded = try certificate.map { (paths) throws(FleetError) in
            try HTTPServer.Certificate(chain: paths.chain, key: paths.key)
        }
        let server = try HTTPServer(listen, port: port, access: access, certificate: loaded)
        let scheme = certificate == nil ? "http" : "https"
        Output.out("serving \(visible(address.name)) at \(scheme)://\(listen.host):\(server.port)/\n")
        let (address, symbols, name) = (address, symbols, tokens == nil ? address.name : nil)
        let source = { @Sendable in first.isShared ? first : FleetSource(address) }
        try server.serve(
            threads: Self.threads,
            pages: {
                let pages = FleetPages(source(), name: name, symbols: symbols, warn: { Output.warn($0) })
                return { pages.response(to: $0) }
            },
            changes: {
                let changes = FleetChanges(source(), address, warn: { Output.warn($0) })
                return { changes.response(to: $0) }
            })
    }
}

extension ServeCommand {
    static let command = Command(
        name: "serve", operands: "STORE", operandCount: 1...1,
        text: "show a directory of reports, or a database, as web pages: on this machine, or with tokens to a team",
        flags: [
            Flag(name: "--port", value: .required("N"), text: "port (default 7070); 0: one that is free"),
            Flag(
                name: "--tokens", value: .required("FILE"),
                text: "who may read, decide and send findings; 'zguard token' adds to this file"),
            Flag(
                name: "--listen", value: .required("ADDRESS"),
                text: "with --tokens: address to listen on (default 127.0.0.1)"),
            Flag(
                name: "--tls", value: .required("CERT,KEY"),
                text: "with --tokens: speak TLS with this certificate and its key, both PEM"),
            Flag(name: "--plain-http", text: "allow --listen without TLS beyond this machine"),
            .symbols,
        ], run: { try ServeCommand($0).run() })
}
