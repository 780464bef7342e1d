// Passes requests from the polling thread to the page threads, and pages back. Every method takes the queue's only
// lock; no thread holds it while making a page.

import CSystem
import Glibc
import Synchronization
import ZombieGuard

/// Equal requests share one page. Threads take the newest and the oldest request in turn: a burst of 500 requests does
/// not delay the next one, and an endless stream of requests cannot starve one.
final class PageQueue: @unchecked Sendable {
    /// A page and the connections that it answers.
    struct Page {
        var connections: [Int]
        var bytes: [UInt8]
    }

    private struct State {
        /// Connections that wait for the page of a request that no thread has taken yet.
        var connections: [HTTPRequest: [Int]] = [:]
        /// The keys of `connections`, newest last.
        var requests: [HTTPRequest] = []
        var pages: [Page] = []
        var isTurnOfOldest = false
        /// Requests whose pages are being made. An equal request that arrives meanwhile waits for the next page, so
        /// that a client that repeats a request occupies only one thread.
        var making: Set<HTTPRequest> = []

        mutating func takeRequest() -> HTTPRequest? {
            defer { isTurnOfOldest.toggle() }
            let isFree = { (request: HTTPRequest) in !making.contains(request) }
            guard let place = isTurnOfOldest ? requests.firstIndex(where: isFree) : requests.lastIndex(where: isFree)
            else { return nil }
            making.insert(requests[place])
            return requests.remove(at: place)
        }
    }

    private let state = Mutex(State())
    private let requested = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)
    private let wakePipe: Descriptor
    /// Readable when finished pages are available.
    let finished: Descriptor

    init() throws(SystemError) {
        var ends: [Int32] = [-1, -1]
        if pipe(&ends) != 0 { throw .last }
        for end in ends {
            _ = fcntl(end, F_SETFD, FD_CLOEXEC)
            _ = fcntl(end, F_SETFL, O_NONBLOCK)
        }
        finished = Descriptor(adopting: ends[0])
        wakePipe = Descriptor(adopting: ends[1])
        sem_init(requested, 0, 0)
    }

    deinit {
        sem_destroy(requested)
        requested.deallocate()
    }

    /// Queues a request for a page.
    func request(_ request: HTTPRequest, for connection: Int) {
        state.withLock { state in
            if state.connections[request, default: []].isEmpty { state.requests.append(request) }
            state.connections[request, default: []].append(connection)
        }
        sem_post(requested)
    }

    /// Withdraws a request because its connection was closed. Has no effect once a thread has taken the request.
    func cancel(_ request: HTTPRequest, for connection: Int) {
        state.withLock { state in
            guard var others = state.connections[request] else { return }
            others.removeAll { $0 == connection }
            state.connections[request] = others.isEmpty ? nil : others
            if others.isEmpty { state.requests.removeAll { $0 == request } }
        }
    }

    /// Returns the pages made since the last call.
    func takePages() -> [Page] {
        while let bytes = try? finished.read(upTo: 64), bytes.count == 64 {}
        return state.withLock { state in
            defer { state.pages = [] }
            return state.pages
        }
    }

    /// Loop of a page thread; never returns.
    func makePages(_ answer: (HTTPRequest) -> HTTPResponse) {
        while true {
            // Also wakes up for requests that were canceled, or answered together with an equal one.
            sem_wait(requested)
            let next = state.withLock { state -> (request: HTTPRequest, connections: [Int])? in
                guard let request = state.takeRequest() else { return nil }
                return (request, state.connections.removeValue(forKey: request) ?? [])
            }
            guard let next else { continue }
            let page = Page(
                connections: next.connections, bytes: answer(next.request).bytes)
            let isAskedAgain = state.withLock { state in
                state.pages.append(page)
                state.making.remove(next.request)
                return state.connections[next.request] != nil
            }
            if isAskedAgain { sem_post(requested) }
            // Writing fails if the pipe is full. Its unread bytes then wake the polling thread.
            try? wakePipe.write(bytes: [0])
        }
    }
}
