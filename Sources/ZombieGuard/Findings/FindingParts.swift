// Defines the parts of a finding: block, thread, stacks and frames.

extension Finding {
    /// The block that a finding is about.
    public struct Block: Hashable, Sendable {
        /// Address of the block's first byte.
        public var start: Address
        /// Size in bytes that the program requested.
        public var size: UInt64
        /// Offset of the finding's address from `start`; negative in front of the block.
        public var offset: Int64?
        /// `live`, `quarantined`, `retired` or `reusable`.
        public var state: String?
        /// Language of the object in the block: `swift`, `c++` or `unknown`; nil if the block held no object.
        public var language: String?
        /// Class of the object in the block, such as `Shop.Cart`.
        public var className: String?
        /// The accessed member of the class, such as `add(_:)`.
        public var member: String?
        /// The runtime's number of the thread that allocated the block; nil if unknown.
        public var allocatingThread: Int?
        /// The runtime's number of the thread that freed the block; nil if the block is live or the thread is unknown.
        public var freeingThread: Int?

        // The symbol of a C++ class (in raw findings only), and the address of the first instruction of the method that
        // the program was about to call. Symbolication turns these into `className` and `member`. A finished finding
        // keeps `memberFrame` while symbols are missing.
        package var classSymbol: String?
        package var memberFrame: Frame?
        // Present in raw findings only: the uses that follow the retain of an object, as predicted by the lookahead
        // emulator, and the names of the superclasses.
        package var next: [NextUse] = []
        package var bases: [String] = []

        /// Creates a block. Each parameter sets the property of the same name.
        public init(
            start: Address, size: UInt64, offset: Int64? = nil, state: String? = nil, language: String? = nil,
            className: String? = nil, member: String? = nil, allocatingThread: Int? = nil, freeingThread: Int? = nil
        ) {
            self.start = start
            self.size = size
            self.offset = offset
            self.state = state
            self.language = language
            self.className = className
            self.member = member
            self.allocatingThread = allocatingThread
            self.freeingThread = freeingThread
        }
    }

    /// A predicted use of an object after its retain: a call with the object as self, or an access to a named property.
    package struct NextUse: Hashable, Sendable {
        package var access: Access
        package var member: String?
        package var memberFrame: Frame?
        package var memberSymbol: String?
        package var confidence: Confidence?
    }

    /// A thread of the guarded program: its number in the runtime, and its name if it has one.
    public struct Thread: Hashable, Sendable {
        /// The runtime's number; 1 is the main thread.
        public var id: Int
        /// The thread name that the kernel keeps, at most 15 bytes.
        public var name: String?

        /// Creates a thread.
        ///
        /// - Parameters:
        ///   - id: the runtime's number.
        ///   - name: nil if the thread has no name.
        public init(id: Int, name: String? = nil) {
            self.id = id
            self.name = name
        }
    }

    /// The stack traces, innermost frame first. An unknown stack is empty.
    public struct Stacks: Hashable, Sendable {
        /// Stack of the access.
        public var access: [Frame]
        /// Stack of the free.
        public var free: [Frame]
        /// Stack of the allocation.
        public var alloc: [Frame]
        /// For a violation of exclusivity: stack of the start of the earlier access, of which only the innermost frame
        /// is known. Empty for other kinds.
        public var previous: [Frame]
        /// Stack of the throw of an uncaught error. Empty if unknown, if `access` shows it, or for other kinds.
        public var thrown: [Frame]

        /// Creates the stacks; omitted ones are unknown.
        ///
        /// - Parameters:
        ///   - access: stack of the access.
        ///   - free: stack of the free.
        ///   - alloc: stack of the allocation.
        ///   - previous: innermost frame at the start of the earlier of two overlapping accesses.
        ///   - thrown: stack of the throw of an uncaught error.
        public init(
            access: [Frame] = [], free: [Frame] = [], alloc: [Frame] = [], previous: [Frame] = [], thrown: [Frame] = []
        ) {
            self.access = access
            self.free = free
            self.alloc = alloc
            self.previous = previous
            self.thrown = thrown
        }
    }

    /// One frame of a stack.
    public struct Frame: Hashable, Sendable {
        /// Address inside the call instruction, not the return address. In the innermost frame of a fault: the faulting
        /// instruction.
        public var pc: Address
        /// Path of the executable or library.
        public var module: String?
        /// The module's build-id, in hexadecimal digits.
        public var buildID: String?
        /// Address within the module's ELF file: `pc` without the load bias.
        public var offset: Address?
        /// The demangled function name; nil if there is no symbol.
        public var function: String?
        /// Path of the source file as recorded by the compiler; nil without debug information.
        public var file: String?
        /// Line number, from 1.
        public var line: Int?
        /// Column number, from 1, in bytes.
        public var column: Int?
        /// Whether the function was inlined into the function of the next frame.
        public var inlined: Bool

        /// Creates a frame. Each parameter sets the property of the same name.
        public init(
            pc: Address, module: String? = nil, buildID: String? = nil, offset: Address? = nil,
            function: String? = nil, file: String? = nil, line: Int? = nil, column: Int? = nil, inlined: Bool = false
        ) {
            self.pc = pc
            self.module = module
            self.buildID = buildID
            self.offset = offset
            self.function = function
            self.file = file
            self.line = line
            self.column = column
            self.inlined = inlined
        }

        /// The module's file name without its directory.
        public var moduleName: String? {
            guard let module else { return nil }
            let slash = UInt8(ascii: "/")
            // Fast path for usual paths, because signatures need the module name of each frame.
            guard module.utf8.last == slash else {
                return module.utf8.lastIndex(of: slash).map { String(module[module.utf8.index(after: $0)...]) }
                    ?? module
            }
            return String(module.split(separator: "/").last ?? module[...])
        }
    }
}

extension Finding.Frame {
    /// "shutdown (app.c:41)", or module and offset if the function has no name. Safe to print.
    package var shortPlace: String {
        guard let function = function.map({ withoutMangledEnd($0) }) else { return moduleAndOffset }
        guard let file else { return visible(function) }
        let name = file.split(separator: "/").last.map(String.init) ?? file
        return "\(visible(function)) (\(visible(name))\(line.map { ":\($0)" } ?? ""))"
    }

    package var moduleAndOffset: String {
        guard let module else { return "\(pc)" }
        return "\(visible(module))\(offset.map { "+\($0)" } ?? "")"
    }
}

extension Finding.Frame: CustomStringConvertible {
    /// "checkout() (main.swift:41)", or module and offset if the function has no name. Safe to print.
    public var description: String { shortPlace }
}
