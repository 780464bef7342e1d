// zguard serve: shows a store of findings as web pages on the loopback interface.

import Glibc
import ZombieGuard
import ZombieGuardFleet

struct ServeCommand {
    private let address: FleetAddress
    private let port: UInt16
    private let symbols: SymbolSources

    private static let standardPort: UInt16 = 7070
    /// Several threads, because a page may wait for a database or a debuginfod server.
    private static let threads = 6

    init(_ arguments: Arguments) throws(Failure) {
        address = try arguments.store(to: "serve", otherwise: "cannot be read from")
        port =
            try arguments.value("--port").map { text throws(Failure) in
                guard let port = UInt16(digits: text) else {
                    throw .usage("option '--port' has the bad value '\(visible(text))': expected 0 to 65535")
                }
                return port
            } ?? Self.standardPort
        symbols = try ReportOptions(arguments).symbols
    }

    func run() throws -> Int32 {
        // Reports an unreadable store now instead of on a page.
        let first = FleetSource(address)
        do throws(FleetError) {
            _ = try first.ask { (reader) throws(FleetError) in try reader.totals(FleetFilter()) }
        } catch {
            throw Failure("\(error)", hint: error.hint)
        }
        let server: HTTPServer
        do throws(SystemError) { server = try HTTPServer(port: port) } catch {
            throw Failure("cannot listen on port \(port): \(error)", hint: "--port 0 uses a free port")
        }
        Output.out("serving \(visible(address.name)) at http://127.0.0.1:\(server.port)/\n")
        do throws(SystemError) {
            try server.serve(threads: Self.threads) { [address, symbols] in
                let pages = FleetPages(
                    first.isShared ? first : FleetSource(address), name: address.name, symbols: symbols)
                return { pages.response(to: $0) }
            }
        } catch {
            throw Failure("cannot start a thread for the web pages: \(error)")
        }
    }
}

extension ServeCommand {
    static let command = Command(
        name: "serve", operands: "STORE", operandCount: 1...1,
        text: "show a directory of reports, or a database, as web pages on this machine",
        flags: [
            Flag(
                name: "--port", value: .required("N"), text: "port on 127.0.0.1 (default 7070); 0: one that is free"
            ),
            .symbols,
        ], run: { try ServeCommand($0).run() })
}
