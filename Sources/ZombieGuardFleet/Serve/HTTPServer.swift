// HTTP and HTTPS server on libmicrohttpd. Its one thread polls all connections, so that a slow client costs a
// descriptor and not a thread. Other threads answer the requests.

import CSystem
import Glibc
import ZombieGuard

/// A server that listens on one address.
public final class HTTPServer: @unchecked Sendable {
    /// Answers the requests of one kind in one thread.
    public typealias Answer = (HTTPRequest) -> HTTPResponse

    private let listener: Descriptor
    /// Queues of requests for pages, changes and uploads. One thread answers all changes, another all uploads.
    private let pages = PageQueue(), changes = PageQueue(), uploads = PageQueue()
    private let library: MicroHTTPD
    private let connections: HTTPConnections
    private let access: AccessControl
    private var certificate: Certificate?
    /// The port that the server listens on.
    public let port: UInt16

    // Length of the queue of connections to accept, which the kernel limits to net.core.somaxconn. Connections wait in
    // it for one poll iteration at most.
    private static let backlog: Int32 = 4096
    /// Memory of one connection in bytes. Limits the size of the request line and headers.
    private static let connectionBytes = 32 << 10
    /// Seconds without a byte after which a connection is closed.
    private static let idleSeconds = 10
    /// Connections that libmicrohttpd accepts beyond our own limit, while we close others.
    private static let spareConnections = 200
    private static let priorities = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

    /// A certificate and its key, as PEM.
    public struct Certificate: Sendable {
        var chain: [UInt8]
        var key: [UInt8]

        private static let mostBytes = 1 << 20

        /// Reads PEM files.
        ///
        /// - Parameters:
        ///   - chain: path of the file with the certificate and the intermediate certificates.
        ///   - key: path of its private key.
        /// - Throws: ``FleetError`` if a file cannot be read, or others may read the key.
        public init(chain: String, key: String) throws(FleetError) {
            do throws(SystemError) {
                self.chain = try Descriptor(opening: chain).read(upTo: Self.mostBytes)
            } catch {
                throw FleetError("cannot read '\(visible(chain))': \(error)")
            }
            self.key = try PrivateFile.read(key)
        }
    }

    /// Binds the port and starts to listen.
    ///
    /// - Parameters:
    ///   - address: the address to listen on.
    ///   - port: port number; 0 for any free port.
    ///   - access: decides about requests.
    ///   - certificate: for TLS; nil: plain HTTP.
    /// - Throws: ``FleetError`` if the port or libmicrohttpd is not available.
    public init(_ address: ListenAddress, port: UInt16, access: AccessControl, certificate: Certificate?)
        throws(FleetError)
    {
        library = try MicroHTTPD()
        if certificate != nil, library.isSupported(MicroHTTPD.featureOfTLS) != MicroHTTPD.yes {
            throw FleetError("libmicrohttpd was built without TLS")
        }
        connections = HTTPConnections(library)
        do throws(SystemError) {
            (listener, self.port) = try address.listen(port: port, backlog: Self.backlog)
        } catch {
            throw FleetError(
                "cannot listen on port \(port) of \(address): \(error)", hint: "--port 0 uses a free port")
        }
        self.access = access
        self.certificate = certificate
        access.port = self.port
    }

    /// Serves connections forever.
    ///
    /// - Parameters:
    ///   - threads: number of threads that make pages.
    ///   - pages: called once in each of these threads; returns the function that makes its pages.
    ///   - changes: called once in the thread that answers all requests that change something, and once in the one that
    ///     takes files.
    /// - Returns: Never returns; throws before the first connection if at all.
    /// - Throws: ``FleetError`` if no thread can be started, or the certificate cannot be used.
    public func serve(
        threads: Int, pages: @escaping @Sendable () -> Answer, changes: @escaping @Sendable () -> Answer
    ) throws(FleetError) -> Never {
        signal(SIGPIPE, SIG_IGN)
        for _ in 0..<threads {
            try startThread("zguard-pages") { [self] in work(self.pages, pages(), mostOfUser: max(1, threads / 2)) }
        }
        try startThread("zguard-changes") { [self] in work(self.changes, changes()) }
        try startThread("zguard-uploads") { [self] in work(self.uploads, changes()) }
        try startDaemon()
        connections.watch()
    }

    private func work(_ queue: PageQueue, _ answer: Answer, mostOfUser: Int = 1) -> Never {
        queue.work(mostOfUser: mostOfUser, answer) { connections, response in
            self.connections.finish(connections, EncodedResponse(response, library))
        }
    }

    private func startThread(_ name: String, _ run: @escaping @Sendable () -> Void) throws(FleetError) {
        final class Work {
            let run: () -> Void
            init(_ run: @escaping () -> Void) { self.run = run }
        }
        let work = Unmanaged.passRetained(Work(run))
        let result = zg_system_start_thread(
            name, { Unmanaged<Work>.fromOpaque($0!).takeRetainedValue().run() }, work.toOpaque())
        if result != 0 {
            work.release()
            throw FleetError("cannot start a thread: \(SystemError(number: -result))")
        }
    }

    private func startDaemon() throws(FleetError) {
        let own = Unmanaged.passRetained(self).toOpaque()
        typealias Option = MicroHTTPD.Option
        let notify: MicroHTTPD.Notify = { own, handle, context, reason in
            guard let own, let handle, let context else { return }
            HTTPServer.from(own).notify(handle, context, isStart: reason == MicroHTTPD.started)
        }
        let line: MicroHTTPD.LineCallback = { own, target, handle in
            guard let own, let target, let handle else { return nil }
            HTTPServer.from(own).connection(handle)?.target = String(cString: target)
            return nil
        }
        // Paths stay encoded: HTTPRequest decodes them.
        let unescape: MicroHTTPD.Unescape = { _, _, text in text.map { strlen($0) } ?? 0 }
        var options: [Option] = [
            .number(Option.memory, Self.connectionBytes),
            .number(Option.connections, HTTPConnections.mostConnections + Self.spareConnections),
            .number(Option.timeout, Self.idleSeconds), .number(Option.strict, 1),
            .number(Option.listener, Int(listener.number)), .callback(Option.line, line, own),
            .callback(Option.unescape, unescape, nil), .callback(Option.notify, notify, own),
        ]
        if let certificate {
            // libmicrohttpd uses the texts for as long as it serves, so the copies are never freed.
            func kept(_ bytes: [UInt8]) -> UnsafeMutableRawPointer? {
                let copy = UnsafeMutablePointer<UInt8>.allocate(capacity: bytes.count + 1)
                copy.initialize(from: bytes + [0], count: bytes.count + 1)
                return UnsafeMutableRawPointer(copy)
            }
            options += [
                .pointer(Option.certificate, kept(certificate.chain)), .pointer(Option.key, kept(certificate.key)),
                .pointer(Option.priorities, kept(Array(Self.priorities.utf8))),
            ]
        }
        options.append(Option(number: Option.end))
        let flags = MicroHTTPD.flags | (certificate == nil ? 0 : MicroHTTPD.encrypted)
        let daemon = options.withUnsafeMutableBytes { list in
            library.start(
                flags, port, nil, nil,
                { own, handle, _, method, _, part, size, _ in
                    guard let own, let handle, let method, let size else { return MicroHTTPD.no }
                    let part = UnsafeRawBufferPointer(start: part, count: part == nil ? 0 : size.pointee)
                    let result = HTTPServer.from(own).proceed(handle, method, part)
                    size.pointee = 0
                    return result
                }, own, Option.array, list.baseAddress, Option.end)
        }
        if daemon == nil {
            throw FleetError(
                certificate == nil ? "libmicrohttpd cannot start" : "certificate and key cannot be used for TLS",
                hint: certificate == nil ? nil : "both must be PEM, and the key that of the certificate")
        }
    }

    // MARK: Calls of libmicrohttpd, in its thread

    private static func from(_ own: UnsafeMutableRawPointer) -> HTTPServer {
        Unmanaged<HTTPServer>.fromOpaque(own).takeUnretainedValue()
    }

    private func connection(_ handle: MicroHTTPD.Connection) -> HTTPConnection? {
        library.context(of: handle).map { Unmanaged<HTTPConnection>.fromOpaque($0).takeUnretainedValue() }
    }

    private func notify(
        _ handle: MicroHTTPD.Connection, _ context: UnsafeMutablePointer<UnsafeMutableRawPointer?>, isStart: Bool
    ) {
        if isStart {
            context.pointee = Unmanaged.passRetained(connections.add(handle)).toOpaque()
        } else if let pointer = context.pointee {
            connections.remove(Unmanaged<HTTPConnection>.fromOpaque(pointer).takeRetainedValue())
        }
    }

    /// Called when the headers of a request have arrived, for each part of its body, at its end, and when the
    /// connection is resumed.
    private func proceed(
        _ handle: MicroHTTPD.Connection, _ method: UnsafePointer<CChar>, _ part: UnsafeRawBufferPointer
    )
        -> CInt
    {
        guard let connection = connection(handle) else { return MicroHTTPD.no }
        switch connection.step {
        case .head:
            connection.step = .body
            let head = HTTPHead(
                method: String(cString: method), target: connection.target, headers: library.headers(of: handle))
            return admit(connection, head)
        case .body where part.count > 0:
            take(part, connection)
            return MicroHTTPD.yes
        case .body:
            connection.step = .answer
            return answer(connection)
        case .answer:
            guard let response = connections.takeResponse(connection) else {
                if case .accepted(let call)? = connection.admission {
                    queue(of: call).cancel(call.request, for: connection)
                }
                return MicroHTTPD.no
            }
            return send(response, connection)
        }
    }

    private func admit(_ connection: HTTPConnection, _ head: HTTPHead) -> CInt {
        let admission = access.admit(head)
        connection.admission = admission
        let length = head.value("content-length").flatMap { Int(digits: $0) } ?? 0
        switch admission {
        case .accepted(let call):
            if length > call.mostBytes { return refuse(connection, AccessControl.tooLarge) }
            // A login gets no extra time for its body, because its sender is not authenticated yet.
            if call.mostBytes > 0, call.kind != .login { connections.receive(connection) }
            connection.body = HTTPBody(
                connections, of: call.mostBytes > AccessControl.mostIgnored ? call.request.user?.name : nil)
            return MicroHTTPD.yes
        case .refused(let response, _):
            // A small body is read first: closing a socket with unread input resets the connection, and the client may
            // then lose the response.
            return length > AccessControl.mostIgnored ? refuse(connection, response) : MicroHTTPD.yes
        }
    }

    private func refuse(_ connection: HTTPConnection, _ response: HTTPResponse) -> CInt {
        connection.step = .answer
        return EncodedResponse(response, library).map { send($0, connection) } ?? MicroHTTPD.no
    }

    private func take(_ part: UnsafeRawBufferPointer, _ connection: HTTPConnection) {
        guard case .accepted(let call)? = connection.admission, let body = connection.body else { return }
        if body.bytes.count + part.count > call.mostBytes {
            connection.admission = .refused(AccessControl.tooLarge, isSlow: false)
        } else if !body.add(part) {
            connection.admission = .refused(AccessControl.busy, isSlow: false)
        } else {
            return
        }
        connection.body = nil
    }

    private func answer(_ connection: HTTPConnection) -> CInt {
        switch connection.admission {
        case .accepted(var call):
            if call.kind == .login {
                return answer(connection, access.logIn(connection.body?.bytes ?? [], call))
            }
            call.request.body = call.mostBytes > 0 ? connection.body : nil
            connection.body = nil
            connection.admission = .accepted(call)
            connections.wait(connection)
            queue(of: call).request(call.request, for: connection)
            return MicroHTTPD.yes
        case .refused(let response, let isSlow): return answer(connection, (response, isSlow))
        case nil: return MicroHTTPD.no
        }
    }

    private func answer(_ connection: HTTPConnection, _ answer: (response: HTTPResponse, isSlow: Bool)) -> CInt {
        guard let response = EncodedResponse(answer.response, library) else { return MicroHTTPD.no }
        if !answer.isSlow { return send(response, connection) }
        if connections.delay(connection, response) { return MicroHTTPD.yes }
        return EncodedResponse(AccessControl.tooMany, library).map { send($0, connection) } ?? MicroHTTPD.no
    }

    private func send(_ response: EncodedResponse, _ connection: HTTPConnection) -> CInt {
        connections.respond(connection, response)
        return response.send(to: connection.handle)
    }

    private func queue(of call: AccessControl.Call) -> PageQueue {
        switch call.kind {
        case .page: pages
        case .upload: uploads
        case .change, .login: changes
        }
    }
}
