// What people have decided about a finding, as reports show it.

extension Finding {
    /// The state of the group that the finding belongs to. ZombieGuard's fleet adds it when it reads a store; what a
    /// report file says of it is ignored.
    public struct TriageNote: Hashable, Sendable {
        /// "open", "regression", "muted" or "resolved".
        public var state: String
        /// The state in words, with who decided and when.
        public var text: String
        /// Who looks after the bug.
        public var assigned: String?

        /// Creates a note. Each parameter sets the property of the same name.
        public init(state: String, text: String, assigned: String? = nil) {
            (self.state, self.text, self.assigned) = (state, text, assigned)
        }
    }
}
