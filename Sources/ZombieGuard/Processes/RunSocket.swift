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

/// Listens until the last reference goes.
package final class RunSocket {
    private let listener: Descriptor

    /// Messages that are taken at a time: who sends without a pause keeps nobody from being served.
    private static let mostAtOnce = 256

    package init(at path: String, mode: mode_t) throws(SystemError) {
        let descriptor = zg_system_listen(path, mode)
        if descriptor < 0 { throw SystemError(number: -descriptor) }
        listener = Descriptor(adopting: descriptor)
    }

    /// Can be read when there is a message.
    package var descriptor: Int32 { listener.number }

    /// The messages that are there.
    package func receive() -> [RunMessage] {
        var messages: [RunMessage] = []
        for _ in 0..<Self.mostAtOnce {
            var message = zg_run_message()
            var sender: pid_t = 0
            let count = zg_system_receive(listener.number, &message, MemoryLayout<zg_run_message>.size, &sender)
            if count < 0 { break }
            if count == MemoryLayout<zg_run_message>.size, let message = RunMessage(message, from: sender) {
                messages.append(message)
            }
        }
        return messages
    }
}
