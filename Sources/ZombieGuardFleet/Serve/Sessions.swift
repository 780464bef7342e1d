// Sessions of browsers that have logged in with a token.

import Synchronization
import ZombieGuard

/// The open sessions, by the hashes of their random ids. Only the cookie has the id itself.
final class Sessions: Sendable {
    private struct Session {
        /// Hash of the token with which it was opened.
        var token: String
        /// In milliseconds of ``MonotonicTime``.
        var end: UInt64
    }

    private let sessions = Mutex<[String: Session]>([:])

    /// Twelve hours: a working day.
    static let seconds: UInt64 = 12 * 3600
    private static let mostOfToken = 20
    private let most: Int

    /// - Parameter most: number of sessions that are open at most.
    init(most: Int = 10_000) { self.most = most }

    /// Opens a session.
    ///
    /// - Returns: its id, for the cookie.
    func open(for token: Token, now: UInt64 = MonotonicTime.milliseconds) -> String {
        let id = Secret.random()
        sessions.withLock { sessions in
            // A token with too many sessions loses its oldest ones.
            let own = sessions.filter { $0.value.token == token.hash }.sorted { $0.value.end < $1.value.end }
            for (key, _) in own.prefix(max(0, own.count - Self.mostOfToken + 1)) { sessions[key] = nil }
            if sessions.count >= most {
                sessions = sessions.filter { $0.value.end > now }
                // If too many are still open, close those that end first.
                let order = sessions.sorted { $0.value.end < $1.value.end }
                for (key, _) in order.prefix(max(0, sessions.count - most * 9 / 10)) { sessions[key] = nil }
            }
            sessions[Secret.hash(id)] = Session(token: token.hash, end: now + Self.seconds * 1000)
        }
        return id
    }

    /// The hash of the token with which a session was opened; nil if there is no such session, or it is over.
    func token(of id: String, now: UInt64 = MonotonicTime.milliseconds) -> String? {
        let key = Secret.hash(id)
        return sessions.withLock { sessions in
            guard let session = sessions[key] else { return nil }
            if session.end > now { return session.token }
            sessions[key] = nil
            return nil
        }
    }

    func close(_ id: String) {
        let key = Secret.hash(id)
        sessions.withLock { $0[key] = nil }
    }
}
