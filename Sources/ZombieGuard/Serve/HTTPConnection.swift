// One connection of the server of pages: what has come of its request, and what has left of its response. Never blocks, no locks;
// for the polling thread alone.

import Glibc

/// A socket in one of four stages, each with a deadline.
final class HTTPConnection {
    enum Stage {
        /// Its request arrives.
        case request
        /// A thread makes its page.
        case page
        /// Its response leaves.
        case response
        /// All has left. What the client still sends is read and dropped, since closing a socket with unread input resets the
        /// connection, and the client may then lose the response.
        case end
        case closed
    }

    private(set) var stage = Stage.request
    /// When this stage ends, in milliseconds of ``MonotonicTime``.
    private(set) var deadline: UInt64
    /// When it was accepted, or last sent something.
    private(set) var lastProgress: UInt64
    /// Never used again for another connection.
    let number: Int
    /// The request whose page has not come.
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
    /// Bytes of the response that have not left.
    var unsent: Int { output.count - sent }

    /// What poll(2) is to wait for.
    var events: pollfd {
        var events: Int32 = 0
        switch stage {
        case .request, .end: events = Int32(POLLIN)
        case .response: events = Int32(POLLOUT)
        case .page, .closed: break
        }
        return pollfd(fd: socket.number, events: Int16(events), revents: 0)
    }

    /// The connections that have done the least for their place are closed first, and those that wait for their page last.
    var rank: Int {
        switch stage {
        case .closed, .end: 0
        case .request: 1
        case .response: 2
        case .page: 3
        }
    }

    /// Reads or writes what the socket is ready for.
    ///
    /// - Returns: the request, once it is complete and a page has to be made.
    func proceed(port: UInt16, now: UInt64) -> HTTPRequest? {
        switch stage {
        case .request: return readRequest(port: port, now: now)
        case .response: send(now: now)
        case .end: drop()
        case .page: close() // reset by the client: poll(2) has nothing else to say of it
        case .closed: break
        }
        return nil
    }

    /// Ends a stage that has lasted too long.
    func expire(now: UInt64) {
        guard now >= deadline else { return }
        if stage == .request { refuse(408, now: now) } else { close() }
    }

    /// Sends a response, as much of it as the socket takes now.
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
        // The end may have begun in what came before.
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

    /// nil: nothing is there, or the client has closed the connection.
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
