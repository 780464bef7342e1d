// The socket at which the processes of a run send messages to its zguard.

import CSystem
import CZombie
import Glibc

/// A message of a process of the run (zg_run_directory.h).
package struct RunMessage {
    /// What it says. What it says of a process other than its sender counts for nothing.
    package enum Content: Hashable {
        /// A raw finding was written.
        case wrote
        /// The process is dying, and asks for the stacks of its threads.
        case dying(request: Int, place: UInt64, nonce: UInt64)
        /// A pulse on the page of the run is one of the process's threads.
        case pulse(Int)
    }

    package let content: Content
    /// Who sent it, as the kernel says.
    package let sender: ProcessIdentity

    /// nil where it says nothing that is known, its sender is gone, or is in a PID namespace that is not below this one
    /// (0).
    init?(_ message: zg_run_message, from process: pid_t) {
        guard process > 0, let sender = ProcessIdentity(Int(process)) else { return nil }
        self.sender = sender
        switch message.kind {
        case zg_message_wrote.rawValue: content = .wrote
        case zg_message_dying.rawValue:
            content = .dying(request: Int(message.index), place: message.place, nonce: message.nonce)
        case zg_message_pulse.rawValue: content = .pulse(Int(message.index))
        default: return nil
        }
    }
}

/// Listens until the last reference goes. A sender may be interrupted between its connect and its send: its connection is
/// kept until the packet is there.
package final class RunSocket {
    private let listener: Descriptor
    /// An epoll instance: of the listener, and of the connections without a packet.
    private let events: Descriptor
    private var connections: [Connection] = []

    private struct Connection {
        let descriptor: Descriptor
        let sender: pid_t
    }

    /// Messages that are taken at a time: who sends without a pause keeps nobody from being served.
    private static let mostAtOnce = 256
    /// Connections that are kept without a packet; the oldest is closed for a new one.
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

    /// Can be read when there is a message.
    package var descriptor: Int32 { events.number }

    private func add(_ descriptor: Descriptor) -> Bool {
        var event = epoll_event(events: EPOLLIN.rawValue, data: epoll_data(fd: descriptor.number))
        return epoll_ctl(events.number, EPOLL_CTL_ADD, descriptor.number, &event) == 0
    }

    /// The messages that are there.
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

    /// Takes a connection's message.
    ///
    /// - Returns: Whether the connection is done with. false: its packet is not there yet.
    private func take(_ connection: Connection, _ messages: inout [RunMessage]) -> Bool {
        var message = zg_run_message()
        let size = MemoryLayout<zg_run_message>.size
        let count = zg_system_receive(connection.descriptor.number, &message, size)
        if count == -Int(EAGAIN) { return false }
        if count == size, let message = RunMessage(message, from: connection.sender) { messages.append(message) }
        return true
    }
}
