// Requests on their way from the thread that polls connections to the threads that make pages, and the pages on their way back.
// Every method takes the queue's one lock, and none holds it while a page is made.

import CSystem
import Glibc
import Synchronization

/// Equal requests are answered by one page. The newest and the oldest request have turns: 500 requests at once do not delay the one that
/// follows them, and requests that never cease do not delay one for ever.
final class PageQueue: @unchecked Sendable {
    /// The page for some connections.
    struct Page {
        var connections: [Int]
        var bytes: [UInt8]
    }

    private struct State {
        /// The connections that wait for the page of a request that no thread has taken.
        var connections: [HTTPRequest: [Int]] = [:]
        /// The same requests, the newest last.
        var requests: [HTTPRequest] = []
        var pages: [Page] = []
        var isTurnOfOldest = false
        /// Requests whose pages are being made. One that comes meanwhile waits for the next page, so that whoever repeats a request
        /// keeps one thread busy and not all of them.
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
    private let bell: Descriptor
    /// Readable when there are pages to take.
    let finished: Descriptor

    init() throws(SystemError) {
        var ends: [Int32] = [-1, -1]
        if pipe(&ends) != 0 { throw .last }
        for end in ends {
            _ = fcntl(end, F_SETFD, FD_CLOEXEC)
            _ = fcntl(end, F_SETFL, O_NONBLOCK)
        }
        finished = Descriptor(adopting: ends[0])
        bell = Descriptor(adopting: ends[1])
        sem_init(requested, 0, 0)
    }

    deinit {
        sem_destroy(requested)
        requested.deallocate()
    }

    /// Asks for a page.
    func request(_ request: HTTPRequest, for connection: Int) {
        state.withLock { state in
            if state.connections[request, default: []].isEmpty { state.requests.append(request) }
            state.connections[request, default: []].append(connection)
        }
        sem_post(requested)
    }

    /// Makes no page for a connection that is closed, unless a thread has begun to.
    func cancel(_ request: HTTPRequest, for connection: Int) {
        state.withLock { state in
            guard var others = state.connections[request] else { return }
            others.removeAll { $0 == connection }
            state.connections[request] = others.isEmpty ? nil : others
            if others.isEmpty { state.requests.removeAll { $0 == request } }
        }
    }

    /// The pages made since the last call.
    func takePages() -> [Page] {
        while let bytes = try? finished.read(upTo: 64), bytes.count == 64 {}
        return state.withLock { state in
            defer { state.pages = [] }
            return state.pages
        }
    }

    /// Makes pages in this thread, for ever.
    func makePages(_ answer: (HTTPRequest) -> HTTPResponse) {
        while true {
            // It also wakes for requests that were cancelled, or answered together with an equal one.
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
            // A pipe that is full has a byte that the polling thread has not seen: that is enough.
            try? bell.write(bytes: [0])
        }
    }
}
