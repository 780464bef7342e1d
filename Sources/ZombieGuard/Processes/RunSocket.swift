// Receives messages of a run's processes on a Unix socket.

import CSystem
import CZombie
import Glibc

/// A message from a process of the run (zg_run_directory.h).
package struct RunMessage {
    /// Contents of a message. The request and the address in it concern only the process that sent the message.
    package enum Content: Hashable {
        /// The process wrote a raw finding.
        case wrote
        /// The process is dying and requests the stacks of its threads.
        case dying(request: Int, place: UInt64, nonce: UInt64)
        /// The process is about to end and requests a search for leaks.
        case ending(request: Int, place: UInt64, nonce: UInt64)
        /// The process has reported a freed block and requests a search for other pointers to the block.
        case holders(request: Int, place: UInt64, nonce: UInt64)
        /// The heartbeat with this index on the shared page belongs to a thread of the process.
        case heartbeat(Int)
    }

    package let content: Content
    /// The sender, as the kernel reports it (SO_PEERCRED).
    package let sender: ProcessIdentity

    /// nil if the message is of unknown kind, the sender has ended, or the sender is in a PID namespace outside of
    /// zguard's (`process` is 0).
    init?(_ message: zg_run_message, from process: pid_t) {
        guard process > 0, let sender = ProcessIdentity(Int(process)) else { return nil }
        self.sender = sender
        switch message.kind {
        case zg_message_wrote.rawValue: content = .wrote
        case zg_message_dying.rawValue:
            content = .dying(request: Int(message.index), place: message.place, nonce: message.nonce)
        case zg_message_ending.rawValue:
            content = .ending(request: Int(message.index), place: message.place, nonce: message.nonce)
        case zg_message_holders.rawValue:
            content = .holders(request: Int(message.index), place: message.place, nonce: message.nonce)
        case zg_message_heartbeat.rawValue: content = .heartbeat(Int(message.index))
        default: return nil
        }
    }
}

/// A listening socket, closed by deinit. A sender may be preempted between connect and send, so connections stay open
/// until their packet arrives.
package final class RunSocket {
    private let listener: Descriptor
    /// epoll instance with the listener and all connections without a packet.
    private let events: Descriptor
    private var connections: [Connection] = []

    private struct Connection {
        let descriptor: Descriptor
        let sender: pid_t
    }

    /// Maximum number of connections read, and of connections accepted, per call. The limit keeps a sender without
    /// pauses from starving the rest of zguard.
    private static let mostAtOnce = 256
    /// Maximum number of connections kept open without a packet. A further connection replaces the oldest.
    private static let mostConnections = 256

    package init(at path: String, mode: mode_t) throws(SystemError) {
        let descriptor = zg_system_listen(path, mode)
        if descriptor < 0 { throw SystemError(number: -descriptor) }
        listener = Descriptor(adopting: descriptor)
        let created = epoll_create1(Int32(EPOLL_CLOEXEC))
        if created < 0 { throw SystemError.last }
        events = Descriptor(adopting: created)
        guard add(listener) else { throw SystemError.last }
    }

    /// Descriptor to poll: readable when a message is pending.
    package var descriptor: Int32 { events.number }

    private func add(_ descriptor: Descriptor) -> Bool {
        var event = epoll_event(events: EPOLLIN.rawValue, data: epoll_data(fd: descriptor.number))
        return epoll_ctl(events.number, EPOLL_CTL_ADD, descriptor.number, &event) == 0
    }

    /// Takes pending messages; `mostAtOnce` limits how many.
    package func receive() -> [RunMessage] {
        var messages: [RunMessage] = []
        var ready = [epoll_event](repeating: epoll_event(), count: Self.mostAtOnce)
        let count = max(0, Int(epoll_wait(events.number, &ready, Int32(Self.mostAtOnce), 0)))
        let isReady = Set(ready[..<count].map { $0.data.fd })
        connections.removeAll { isReady.contains($0.descriptor.number) && take($0, &messages) }
        guard isReady.contains(listener.number) else { return messages }
        for _ in 0..<Self.mostAtOnce {
            var sender: pid_t = 0
            let accepted = zg_system_accept(listener.number, &sender)
            if accepted < 0 { break }
            let connection = Connection(descriptor: Descriptor(adopting: accepted), sender: sender)
            if take(connection, &messages) || !add(connection.descriptor) { continue }
            if connections.count == Self.mostConnections { connections.removeFirst() }
            connections.append(connection)
        }
        return messages
    }

    /// Takes the message of a connection.
    ///
    /// - Returns: true if the connection can be closed; false if its packet has not arrived.
    private func take(_ connection: Connection, _ messages: inout [RunMessage]) -> Bool {
        var message = zg_run_message()
        let size = MemoryLayout<zg_run_message>.size
        let count = zg_system_receive(connection.descriptor.number, &message, size)
        if count == -Int(EAGAIN) { return false }
        if count == size, let message = RunMessage(message, from: connection.sender) { messages.append(message) }
        return true
    }
}
