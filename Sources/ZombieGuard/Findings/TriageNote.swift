// Defines the triage state of a finding, as people set it and reports show it.

extension Finding {
    /// The triage state of the finding's group. ZombieGuard's fleet adds the state when it reads a store; the state in
    /// a report file is ignored.
    public struct TriageNote: Hashable, Sendable {
        /// "open", "regression", "muted" or "resolved".
        public var state: String
        /// The state as text, with who set it and when.
        public var text: String
        /// The person to whom the bug is assigned.
        public var assigned: String?

        /// Creates a note. Each parameter sets the property of the same name.
        public init(state: String, text: String, assigned: String? = nil) {
            (self.state, self.text, self.assigned) = (state, text, assigned)
        }
    }
}
