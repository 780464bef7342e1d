// Passes requests from the polling thread to the threads that answer them. Every method takes the queue's only lock; no
// thread holds it while making a page.

import Glibc
import Synchronization
import ZombieGuard

/// Equal requests share one page. Threads take the newest and the oldest request in turn: a burst of 500 requests does
/// not delay the next request, and an endless stream cannot starve an old one. Users share the threads evenly, and one
/// user occupies at most half of them.
final class PageQueue: @unchecked Sendable {
    private struct State {
        /// Connections that wait for the page of a request that no thread has taken yet.
        var connections: [HTTPRequest: [HTTPConnection]] = [:]
        /// The keys of `connections`, newest last.
        var requests: [HTTPRequest] = []
        var isTurnOfOldest = false
        /// Requests whose pages are being made. An equal request that arrives meanwhile waits for the next page, so
        /// that a client that repeats a request occupies only one thread.
        var making: Set<HTTPRequest> = []

        /// Takes a request of the user who occupies the fewest threads. Nil if all waiting requests are of users who
        /// occupy `mostOfUser` threads, or equal to requests that are being answered.
        mutating func takeRequest(mostOfUser: Int) -> HTTPRequest? {
            defer { isTurnOfOldest.toggle() }
            var (next, least): (Int?, Int) = (nil, mostOfUser)
            for index in requests.indices where least > 0 {
                let place = isTurnOfOldest ? index : requests.count - 1 - index
                // Without tokens, requests have no user, and no limit applies: all come from this machine.
                let threads = requests[place].user.map { user in making.count { $0.user == user } } ?? 0
                if threads < least, !making.contains(requests[place]) { (next, least) = (place, threads) }
            }
            guard let place = next else { return nil }
            making.insert(requests[place])
            return requests.remove(at: place)
        }
    }

    private let state = Mutex(State())
    private let requested = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)

    init() { sem_init(requested, 0, 0) }

    deinit {
        sem_destroy(requested)
        requested.deallocate()
    }

    /// Queues a request for a page.
    func request(_ request: HTTPRequest, for connection: HTTPConnection) {
        state.withLock { state in
            if state.connections[request, default: []].isEmpty { state.requests.append(request) }
            state.connections[request, default: []].append(connection)
        }
        sem_post(requested)
    }

    /// Withdraws the request of a connection that is closed. Has no effect once a thread has taken it.
    func cancel(_ request: HTTPRequest, for connection: HTTPConnection) {
        state.withLock { state in
            guard var others = state.connections[request] else { return }
            others.removeAll { $0 === connection }
            state.connections[request] = others.isEmpty ? nil : others
            if others.isEmpty { state.requests.removeAll { $0 == request } }
        }
    }

    /// Loop of a thread that answers requests; never returns.
    ///
    /// - Parameters:
    ///   - mostOfUser: number of threads that one user's requests occupy at most.
    ///   - answer: answers a request.
    ///   - finish: sends the response to the connections that wait for it.
    func work(
        mostOfUser: Int, _ answer: (HTTPRequest) -> HTTPResponse, _ finish: ([HTTPConnection], HTTPResponse) -> Void
    ) -> Never {
        while true {
            // The thread also wakes up for requests that were canceled, or answered together with an equal one.
            sem_wait(requested)
            let next = state.withLock { state -> (request: HTTPRequest, connections: [HTTPConnection])? in
                guard let request = state.takeRequest(mostOfUser: mostOfUser) else { return nil }
                return (request, state.connections.removeValue(forKey: request) ?? [])
            }
            guard let next else { continue }
            finish(next.connections, answer(next.request))
            // Requests that had to wait for this one may now be answered: equal ones, and those of the same user.
            let isMoreWaiting = state.withLock { state in
                state.making.remove(next.request)
                return !state.requests.isEmpty
            }
            if isMoreWaiting { sem_post(requested) }
        }
    }
}
