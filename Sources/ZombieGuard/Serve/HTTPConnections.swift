// The connections of the server of pages, and what poll(2) is to say of each. For the polling thread alone; no locks.

import Glibc

/// A table that costs little per event: poll(2) is called for every byte that a slow client sends, with up to a thousand connections.
struct HTTPConnections {
    private var connections: [HTTPConnection] = []
    /// `fixed`, and one for each connection, in the same order.
    private var polled: [pollfd]
    private let fixed: Int
    /// Where a connection is, by its number.
    private var places: [Int: Int] = [:]
    private var nextNumber = 0
    private let queue: PageQueue
    private let port: UInt16
    private var nextLook: UInt64 = 0

    private static let lookMilliseconds: UInt64 = 100

    /// Makes an empty table.
    ///
    /// - Parameters:
    ///   - descriptors: polled for input, besides the connections.
    ///   - queue: where complete requests go.
    ///   - port: the server's.
    init(besides descriptors: [Descriptor], queue: PageQueue, port: UInt16) {
        polled = descriptors.map { pollfd(fd: $0.number, events: Int16(POLLIN), revents: 0) }
        fixed = descriptors.count
        self.queue = queue
        self.port = port
    }

    var count: Int { connections.count }

    /// Waits until something is ready, or it is time to look at deadlines.
    mutating func wait() {
        poll(&polled, nfds_t(polled.count), connections.isEmpty ? -1 : Int32(Self.lookMilliseconds))
    }

    /// Whether one of the other descriptors was ready.
    func isReady(_ index: Int) -> Bool { polled[index].revents != 0 }

    /// Reads and writes where that is possible, and ends what has lasted too long.
    mutating func proceed(now: UInt64) {
        let isTimeToLook = now >= nextLook
        if isTimeToLook { nextLook = now + Self.lookMilliseconds }
        // Backwards: where one is removed the last one comes, which has had its turn.
        for place in connections.indices.reversed() where polled[fixed + place].revents != 0 || isTimeToLook {
            if polled[fixed + place].revents != 0 { advance(place, now: now) }
            if isTimeToLook { connections[place].expire(now: now) }
            update(place)
        }
    }

    /// Takes in a connection, and what it has sent already.
    mutating func add(_ socket: Descriptor, now: UInt64) {
        let connection = HTTPConnection(socket, number: nextNumber, now: now)
        nextNumber += 1
        places[connection.number] = connections.count
        connections.append(connection)
        polled.append(connection.events)
        advance(connections.count - 1, now: now)
        update(connections.count - 1)
    }

    /// Sends pages. Once the clients are too slow to read them those are closed that have read nothing for the longest time.
    mutating func send(_ pages: [PageQueue.Page], mostUnsent: Int, now: UInt64) {
        for page in pages {
            for number in page.connections {
                // A number is never used again: one that was closed meanwhile is not there.
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

    /// Closes one connection in sixteen, those that have done least for their place, and of those the oldest. Looking for so many
    /// takes as long as for one.
    ///
    /// - Returns: whether there was one.
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

    /// Keeps the table as the connection is now.
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
