// The web server's open connections: their deadlines, and which ones are closed if there are too many. libmicrohttpd
// itself limits only idle time, and refuses new clients at its limit. A client that sends a byte a second is never
// idle.

import CSystem
import Glibc
import Synchronization
import ZombieGuard

/// A connection, which carries one request.
final class HTTPConnection: @unchecked Sendable {
    /// The stages of a connection. If there are too many connections, some of those in the fullest stage are closed;
    /// see ``HTTPConnections/add(_:)``.
    enum Stage {
        /// The response to wrong credentials is delayed.
        case refused
        /// TLS handshake, request line and headers, and the body of a request that is refused.
        case request
        /// The body of a request that is admitted.
        case body
        case response
        /// A thread makes the page.
        case page
    }

    /// What the next callback of libmicrohttpd for the request is about.
    enum Step {
        case head, body, answer
    }

    let handle: MicroHTTPD.Connection
    let socket: CInt
    /// Number of the connection, never reused.
    let number: Int

    // For the polling thread.
    var step = Step.head
    var target = ""
    var admission: AccessControl.Admission?
    var body: HTTPBody?

    // Guarded by the lock of HTTPConnections.
    fileprivate(set) var stage = Stage.request
    /// Sequence number of the connection's last change of stage. Orders connections by time; many enter a stage in the
    /// same millisecond.
    fileprivate(set) var since: Int
    /// End of the stage, in milliseconds of ``MonotonicTime``.
    fileprivate(set) var deadline: UInt64
    fileprivate var isSuspended = false
    fileprivate var isClosed = false
    fileprivate var response: EncodedResponse?

    init(_ handle: MicroHTTPD.Connection, socket: CInt, number: Int, now: UInt64) {
        (self.handle, self.socket, self.number, since) = (handle, socket, number, number)
        deadline = now + HTTPConnections.requestMilliseconds
    }
}

/// The body of a request. Bodies are compared by identity.
public final class HTTPBody: Hashable, @unchecked Sendable {
    /// The bytes received so far; all bytes of the body when the request is answered.
    private(set) var bytes: [UInt8] = []
    private let connections: HTTPConnections?
    /// Name of the user who sends a large body; nil for small bodies, which have a budget of their own.
    private let user: String?

    init(_ connections: HTTPConnections?, of user: String? = nil) {
        (self.connections, self.user) = (connections, user)
    }

    deinit { connections?.release(bytes.count, user) }

    /// Adds bytes; false if the bodies of waiting requests hold too many bytes.
    func add(_ part: UnsafeRawBufferPointer) -> Bool {
        guard connections?.reserve(part.count, user) ?? true else { return false }
        bytes += part
        return true
    }

    public static func == (one: HTTPBody, other: HTTPBody) -> Bool { one === other }
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}

/// All connections. A lock guards their state. Call the methods in the polling thread, unless they say otherwise.
final class HTTPConnections: @unchecked Sendable {
    private struct State {
        var open: [Int: HTTPConnection] = [:]
        /// Number of the next connection or change of stage.
        var nextNumber = 0
        /// Connections that are not closed yet.
        var count = 0
        var refused = 0
        /// Bytes in memory of all small request bodies.
        var small = 0
        /// Bytes in memory of large request bodies, by the name of the token.
        var large: [String: Int] = [:]
    }

    private let library: MicroHTTPD
    private let state = Mutex(State())
    /// Posted when a connection is opened while no other is open.
    private let opened = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)

    static let requestMilliseconds: UInt64 = 10_000
    private static let bodyMilliseconds: UInt64 = 120_000, responseMilliseconds: UInt64 = 60_000
    private static let refusedMilliseconds: UInt64 = 1000
    private static let lookMilliseconds: UInt64 = 100
    /// Maximum number of delayed responses to wrong credentials; further responses are sent at once.
    private static let mostRefused = 100
    static let mostConnections = 1000
    /// Descriptors reserved for making pages: a database connection, and files with symbols.
    private static let descriptorsOfPages = 64
    /// Limits on response bytes that slow clients have not read, and on bytes of large bodies of waiting requests.
    private static let mostUnsent = 64 << 20, mostReceived = 64 << 20
    private static let mostSmall = 8 << 20, mostOfUser = 32 << 20

    init(_ library: MicroHTTPD) {
        self.library = library
        sem_init(opened, 0, 0)
    }

    /// Adds a connection. If there are too many, closes those that have been longest in the fullest stage: a sixteenth
    /// of the limit at once, to amortize the sort. A flood fills one stage, and does not harm clients in other stages.
    func add(_ handle: MicroHTTPD.Connection) -> HTTPConnection {
        let limit = Self.limit
        let now = MonotonicTime.milliseconds
        return state.withLock { state in
            let connection = HTTPConnection(
                handle, socket: library.socket(of: handle), number: state.nextNumber, now: now)
            state.nextNumber += 1
            if state.open.isEmpty { sem_post(opened) }
            state.open[connection.number] = connection
            state.count += 1
            if state.count > limit {
                let stages = Dictionary(grouping: state.open.values.filter { !$0.isClosed }, by: \.stage)
                let fullest = stages.values.max { $0.count < $1.count } ?? []
                for one in fullest.sorted(by: { $0.since < $1.since }).prefix(max(1, limit / 16))
                where one !== connection {
                    close(one, &state)
                }
            }
            return connection
        }
    }

    /// Forgets a connection that libmicrohttpd has closed.
    func remove(_ connection: HTTPConnection) {
        state.withLock { state in
            guard state.open.removeValue(forKey: connection.number) != nil else { return }
            leave(connection, &state)
            if !connection.isClosed { state.count -= 1 }
            connection.isClosed = true
        }
    }

    /// Starts the stage in which an admitted body is received.
    func receive(_ connection: HTTPConnection) {
        state.withLock { enter(.body, connection, Self.bodyMilliseconds, &$0) }
    }

    /// Counts bytes of a body.
    ///
    /// - Returns: false if the bodies of waiting requests hold too many bytes.
    func reserve(_ count: Int, _ user: String?) -> Bool {
        state.withLock { state in
            guard let user else {
                if state.small + count > Self.mostSmall { return false }
                state.small += count
                return true
            }
            let own = state.large[user, default: 0] + count
            let all = state.large.values.reduce(count, +)
            if own > Self.mostOfUser || all > Self.mostReceived { return false }
            state.large[user] = own
            return true
        }
    }

    fileprivate func release(_ count: Int, _ user: String?) {
        state.withLock { state in
            guard let user else {
                state.small -= count
                return
            }
            let left = state.large[user, default: 0] - count
            state.large[user] = left > 0 ? left : nil
        }
    }

    /// Suspends a connection until ``finish(_:_:)`` provides its response.
    func wait(_ connection: HTTPConnection) {
        state.withLock { state in
            enter(.page, connection, nil, &state)
            connection.isSuspended = true
            library.suspend(connection.handle)
        }
    }

    /// Delays the response to wrong credentials: suspends the connection for a second before the response is sent,
    /// unless too many responses are delayed.
    ///
    /// - Returns: whether the connection was suspended.
    func delay(_ connection: HTTPConnection, _ response: EncodedResponse?) -> Bool {
        state.withLock { state in
            if state.refused >= Self.mostRefused { return false }
            enter(.refused, connection, Self.refusedMilliseconds, &state)
            connection.response = response
            connection.isSuspended = true
            library.suspend(connection.handle)
            return true
        }
    }

    /// Gives connections the response that they wait for. Any thread may call it.
    func finish(_ connections: [HTTPConnection], _ response: EncodedResponse?) {
        state.withLock { state in
            for connection in connections where connection.isSuspended {
                connection.response = response
                resume(connection)
            }
        }
    }

    /// The response that a resumed connection must send now; nil if the connection must be closed.
    func takeResponse(_ connection: HTTPConnection) -> EncodedResponse? {
        state.withLock { _ in
            connection.isClosed ? nil : connection.response
        }
    }

    /// Starts the stage in which a response is sent.
    func respond(_ connection: HTTPConnection, _ response: EncodedResponse) {
        state.withLock { state in
            connection.response = response
            enter(.response, connection, Self.responseMilliseconds, &state)
            boundUnsent(&state)
        }
    }

    /// Ends stages that have passed their deadlines; never returns. Runs in a thread of its own.
    func watch() -> Never {
        while true {
            if state.withLock({ $0.open.isEmpty }) {
                sem_wait(opened)
                continue
            }
            usleep(useconds_t(Self.lookMilliseconds * 1000))
            let now = MonotonicTime.milliseconds
            state.withLock { state in
                for connection in state.open.values where !connection.isClosed && connection.deadline <= now {
                    if connection.stage == .refused { resume(connection) } else { close(connection, &state) }
                }
                boundUnsent(&state)
            }
        }
    }

    // MARK: Under the lock

    private func enter(
        _ stage: HTTPConnection.Stage, _ connection: HTTPConnection, _ milliseconds: UInt64?, _ state: inout State
    ) {
        leave(connection, &state)
        if stage == .refused { state.refused += 1 }
        connection.stage = stage
        connection.since = state.nextNumber
        state.nextNumber += 1
        connection.deadline = milliseconds.map { MonotonicTime.milliseconds + $0 } ?? .max
    }

    private func leave(_ connection: HTTPConnection, _ state: inout State) {
        if connection.stage == .refused { state.refused -= 1 }
        connection.stage = .request
    }

    private func resume(_ connection: HTTPConnection) {
        guard connection.isSuspended else { return }
        connection.isSuspended = false
        connection.deadline = .max
        library.resume(connection.handle)
    }

    /// Shuts down the connection's socket, whereupon libmicrohttpd closes the connection. libmicrohttpd calls `remove`
    /// before it closes the socket, so the descriptor still belongs to the connection here.
    private func close(_ connection: HTTPConnection, _ state: inout State) {
        if connection.isClosed { return }
        connection.isClosed = true
        state.count -= 1
        connection.response = nil
        shutdown(connection.socket, Int32(SHUT_RDWR))
        resume(connection)
    }

    /// If too many bytes are unsent, closes a quarter of the connections that are sending, those that have been sending
    /// for longest. A response that several equal requests share counts once.
    private func boundUnsent(_ state: inout State) {
        var responses: [ObjectIdentifier: Int] = [:]
        for case let response? in state.open.values.map(\.response) {
            responses[ObjectIdentifier(response)] = response.count
        }
        if responses.values.reduce(0, +) <= Self.mostUnsent { return }
        let sending = state.open.values.filter { $0.stage == .response && !$0.isClosed }.sorted { $0.since < $1.since }
        for connection in sending.prefix(max(1, sending.count / 4)) { close(connection, &state) }
    }

    /// Maximum number of connections. Read each time, because prlimit(2) may lower RLIMIT_NOFILE from outside.
    private static var limit: Int {
        var limits = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limits) == 0 else { return mostConnections }
        let descriptors = Int(clamping: limits.rlim_cur)
        return max(1, min(mostConnections, max(descriptors - descriptorsOfPages, descriptors / 2)))
    }
}
