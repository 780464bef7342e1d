// Table of the web server's connections and their poll(2) entries. For the polling thread only; no locks.

import Glibc
import ZombieGuard

/// The server's open connections. A slow client among a thousand connections may make poll(2) return for every byte, so
/// the cost per poll is kept low.
struct HTTPConnections {
    private var connections: [HTTPConnection] = []
    /// `fixed` entries for other descriptors, then one for each connection in the order of `connections`.
    private var polled: [pollfd]
    private let fixed: Int
    /// Index of a connection by its number.
    private var places: [Int: Int] = [:]
    private var nextNumber = 0
    private let queue: PageQueue
    private let port: UInt16
    private var nextLook: UInt64 = 0

    private static let lookMilliseconds: UInt64 = 100

    /// Makes an empty table.
    ///
    /// - Parameters:
    ///   - descriptors: other descriptors to poll for input.
    ///   - queue: receives complete requests.
    ///   - port: port of the server.
    init(besides descriptors: [Descriptor], queue: PageQueue, port: UInt16) {
        polled = descriptors.map { pollfd(fd: $0.number, events: Int16(POLLIN), revents: 0) }
        fixed = descriptors.count
        self.queue = queue
        self.port = port
    }

    var count: Int { connections.count }

    /// Waits until a descriptor is ready or deadlines must be checked.
    mutating func wait() {
        poll(&polled, nfds_t(polled.count), connections.isEmpty ? -1 : Int32(Self.lookMilliseconds))
    }

    /// Whether the other descriptor at `index` was ready.
    func isReady(_ index: Int) -> Bool { polled[index].revents != 0 }

    /// Serves all ready connections, and every 100 ms ends stages that passed their deadline.
    mutating func proceed(now: UInt64) {
        let isTimeToLook = now >= nextLook
        if isTimeToLook { nextLook = now + Self.lookMilliseconds }
        // Backward: a removed connection is replaced by the last one, which has already been served.
        for place in connections.indices.reversed() where polled[fixed + place].revents != 0 || isTimeToLook {
            if polled[fixed + place].revents != 0 { advance(place, now: now) }
            if isTimeToLook { connections[place].expire(now: now) }
            update(place)
        }
    }

    /// Adds a connection and reads what it has already sent.
    mutating func add(_ socket: Descriptor, now: UInt64) {
        let connection = HTTPConnection(socket, number: nextNumber, now: now)
        nextNumber += 1
        places[connection.number] = connections.count
        connections.append(connection)
        polled.append(connection.events)
        advance(connections.count - 1, now: now)
        update(connections.count - 1)
    }

    /// Starts sending pages. If there are more than `mostUnsent` unsent bytes, closes the connections that have made no
    /// progress for longest.
    mutating func send(_ pages: [PageQueue.Page], mostUnsent: Int, now: UInt64) {
        for page in pages {
            for number in page.connections {
                // The connection is missing if it was closed meanwhile. Numbers are never reused.
                guard let place = places[number] else { continue }
                connections[place].respond(page.bytes, now: now)
                update(place)
            }
        }
        var unsent = connections.reduce(0) { $0 + $1.unsent }
        if unsent <= mostUnsent { return }
        for connection in connections.filter({ $0.unsent > 0 }).sorted(by: { $0.lastProgress < $1.lastProgress })
        where unsent > mostUnsent {
            unsent -= connection.unsent
            close(connection)
        }
    }

    /// Closes one in sixteen connections, lowest rank and least recent progress first, to amortize the sort.
    ///
    /// - Returns: whether a connection was closed.
    mutating func closeSome() -> Bool {
        let order = connections.sorted { ($0.rank, $0.lastProgress, $0.number) < ($1.rank, $1.lastProgress, $1.number) }
        for connection in order.prefix(max(1, order.count / 16)) { close(connection) }
        return !order.isEmpty
    }

    private mutating func advance(_ place: Int, now: UInt64) {
        let connection = connections[place]
        if let request = connection.proceed(port: port, now: now) { queue.request(request, for: connection.number) }
    }

    private mutating func close(_ connection: HTTPConnection) {
        connection.close()
        if let place = places[connection.number] { update(place) }
    }

    /// Updates the poll entry of a connection, or removes a closed connection from the table.
    private mutating func update(_ place: Int) {
        let connection = connections[place]
        if !connection.isClosed {
            polled[fixed + place] = connection.events
            return
        }
        if let request = connection.unanswered { queue.cancel(request, for: connection.number) }
        places[connection.number] = nil
        connections.swapAt(place, connections.count - 1)
        polled.swapAt(fixed + place, polled.count - 1)
        connections.removeLast()
        polled.removeLast()
        if place < connections.count { places[connections[place].number] = place }
    }
}
