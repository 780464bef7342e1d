// Defines what a finding records about a crash: signal, message, registers, and the stacks of all threads.

extension Finding {
    /// A crash, without its kind, address and stacks. In JSON the keys of a crash are members of the finding's own
    /// object.
    public struct Crash: Hashable, Sendable {
        /// The name of the signal, such as `SIGABRT`; empty if the program ended by an exit status.
        public var signal: String
        /// The exit status by which a language runtime ended the program for an uncaught error, such as 101 for a panic
        /// of Rust; nil if a signal ended it.
        public var status: Int?
        /// The kernel's `si_code`: positive if the kernel or an instruction raised the signal; otherwise a process sent
        /// it.
        public var code: Int
        /// The message printed when the program was terminated, such as "Fatal error: Index out of range"; nil if there
        /// was none.
        public var message: String?
        /// Registers of the faulting thread, by the names that debuggers use.
        public var registers: [String: Address]
        /// Annotations that the program has set (zg_annotate.h), by key.
        public var annotations: [String: String]
        /// All threads, the faulting one first; empty if the threads could not be stopped and unwound.
        public var threads: [ThreadStack]

        /// Creates a crash by a signal. Each parameter sets the property of the same name.
        public init(
            signal: String, code: Int = 0, message: String? = nil, registers: [String: Address] = [:],
            annotations: [String: String] = [:], threads: [ThreadStack] = []
        ) {
            self.signal = signal
            self.code = code
            self.message = message
            self.registers = registers
            self.annotations = annotations
            self.threads = threads
        }
    }

    /// One thread of a crashed program, or the lock holder of a stall.
    public struct ThreadStack: Hashable, Sendable {
        /// The runtime's number of the thread, as in ``Thread``; nil if the runtime did not know the thread.
        public var id: Int?
        /// The kernel's thread id (tid).
        public var threadID: Int
        /// The thread name that the kernel keeps, at most 15 bytes.
        public var name: String?
        /// Whether this thread received the fatal signal.
        public var hasFaulted: Bool
        /// Stack trace, innermost frame first; empty if the thread could not be stopped.
        public var stack: [Frame]

        /// Creates a thread. Each parameter sets the property of the same name.
        public init(id: Int?, threadID: Int, name: String? = nil, hasFaulted: Bool = false, stack: [Frame] = []) {
            self.id = id
            self.threadID = threadID
            self.name = name
            self.hasFaulted = hasFaulted
            self.stack = stack
        }
    }
}
