// One connection of the web server, as a state machine. Never blocks; no locks; for the polling thread only.

import Glibc
import ZombieGuard

/// A connected socket. Each stage has a deadline.
final class HTTPConnection {
    enum Stage {
        /// Receiving the request.
        case request
        /// Waiting for a thread to make the page.
        case page
        /// Sending the response.
        case response
        /// Lingering close. Further input is read and dropped: closing a socket with unread input resets the
        /// connection, and the client may then lose the response.
        case end
        case closed
    }

    private(set) var stage = Stage.request
    /// Deadline of this stage, in milliseconds of ``MonotonicTime``.
    private(set) var deadline: UInt64
    /// Time of acceptance, or of the last sent byte.
    private(set) var lastProgress: UInt64
    /// Unique number of the connection, never reused.
    let number: Int
    /// The request whose page is not ready yet.
    private(set) var unanswered: HTTPRequest?
    private let socket: Descriptor
    private var input: [UInt8] = []
    private var output: [UInt8] = []
    private var sent = 0
    private var lastDeadline = UInt64.max

    private static let longestHead = 16 << 10
    private static let requestMilliseconds: UInt64 = 10_000
    private static let progressMilliseconds: UInt64 = 10_000, responseMilliseconds: UInt64 = 60_000
    private static let endMilliseconds: UInt64 = 2000
    private static let endOfHead = Array("\r\n\r\n".utf8)

    init(_ socket: Descriptor, number: Int, now: UInt64) {
        self.socket = socket
        self.number = number
        lastProgress = now
        deadline = now + Self.requestMilliseconds
    }

    var isClosed: Bool { stage == .closed }
    /// Unsent bytes of the response.
    var unsent: Int { output.count - sent }

    /// Events for poll(2) to report.
    var events: pollfd {
        var events: Int32 = 0
        switch stage {
        case .request, .end: events = Int32(POLLIN)
        case .response: events = Int32(POLLOUT)
        case .page, .closed: break
        }
        return pollfd(fd: socket.number, events: Int16(events), revents: 0)
    }

    /// Priority under overload. Connections with a low rank are closed first, connections that wait for their page
    /// last.
    var rank: Int {
        switch stage {
        case .closed, .end: 0
        case .request: 1
        case .response: 2
        case .page: 3
        }
    }

    /// Reads or writes as much as possible without blocking.
    ///
    /// - Returns: the request once it is complete and needs a page; otherwise nil.
    func proceed(port: UInt16, now: UInt64) -> HTTPRequest? {
        switch stage {
        case .request: return readRequest(port: port, now: now)
        case .response: send(now: now)
        case .end: drop()
        // In this stage poll(2) reports only errors: the client has reset the connection.
        case .page: close()
        case .closed: break
        }
        return nil
    }

    /// Ends a stage that has passed its deadline.
    func expire(now: UInt64) {
        guard now >= deadline else { return }
        if stage == .request { refuse(408, now: now) } else { close() }
    }

    /// Starts the response and sends as much as the socket accepts.
    func respond(_ bytes: [UInt8], now: UInt64) {
        input = []
        unanswered = nil
        output = bytes
        sent = 0
        stage = .response
        lastProgress = now
        deadline = now + Self.progressMilliseconds
        lastDeadline = now + Self.responseMilliseconds
        send(now: now)
    }

    func close() {
        stage = .closed
        output = []
        sent = 0
    }

    private func refuse(_ status: Int, now: UInt64) {
        respond(HTTPResponse(status: status, type: "text/plain", body: "\(status)\n").bytes, now: now)
    }

    private func readRequest(port: UInt16, now: UInt64) -> HTTPRequest? {
        guard let part = receive() else { return nil }
        // The terminator may begin in earlier input.
        let start = max(0, input.count - Self.endOfHead.count + 1)
        input += part
        if let found = firstEnd(from: start) {
            let (request, status) = HTTPRequest.parse(Array(input[..<found]), port: port)
            guard let request else {
                refuse(status, now: now)
                return nil
            }
            input = []
            unanswered = request
            stage = .page
            deadline = .max
            return request
        }
        if input.count > Self.longestHead { refuse(431, now: now) }
        return nil
    }

    private func firstEnd(from start: Int) -> Int? {
        let end = Self.endOfHead
        guard input.count - start >= end.count else { return nil }
        return (start...(input.count - end.count)).first { input[$0..<($0 + end.count)].elementsEqual(end) }
    }

    /// Reads input. nil if there is none, or the connection is closed.
    private func receive() -> ArraySlice<UInt8>? {
        var part = [UInt8](repeating: 0, count: 4096)
        let count = recv(socket.number, &part, part.count, Int32(MSG_DONTWAIT))
        if count > 0 { return part[..<count] }
        if count == 0 || ![EAGAIN, EINTR].contains(errno) { close() }
        return nil
    }

    private func send(now: UInt64) {
        while unsent > 0 {
            let count = output.withUnsafeBytes {
                Glibc.send(
                    socket.number, $0.baseAddress! + sent, unsent,
                    Int32(MSG_NOSIGNAL | MSG_DONTWAIT))
            }
            if count < 0 {
                if errno == EINTR { continue }
                if errno != EAGAIN { close() }
                return
            }
            sent += count
            lastProgress = now
            deadline = min(now + Self.progressMilliseconds, lastDeadline)
        }
        output = []
        sent = 0
        shutdown(socket.number, Int32(SHUT_WR))
        stage = .end
        deadline = now + Self.endMilliseconds
    }

    private func drop() { _ = receive() }
}
