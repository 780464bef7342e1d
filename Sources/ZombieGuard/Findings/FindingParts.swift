// The parts of a finding: block, thread, stacks, frames.

extension Finding {
    /// The block that a finding is about.
    public struct Block: Hashable, Codable, Sendable {
        /// Where the block begins.
        public var start: Address
        /// In bytes, as the program asked for it.
        public var size: UInt64
        /// Distance of the finding's address from `start`; negative before the block.
        public var offset: Int64?
        /// `live`, `quarantined`, `retired` or `reusable`.
        public var state: String?
        /// The language of the object, where it was one: `swift`, `c++` or `unknown`.
        public var language: String?
        /// The class of the object that lived in the block, such as `Shop.Cart`.
        public var className: String?
        /// The member of the class that was touched, such as `add(_:)`.
        public var member: String?
        /// Numbers of the threads that allocated and freed the block, where known.
        public var allocatingThread: Int?
        /// The runtime's number of the thread that freed it; nil where it is live or nobody knows.
        public var freeingThread: Int?

        // What only raw findings have, and symbolication makes class and member of: the symbol of a C++ class, and the
        // first instruction of the method that the program was about to call.
        package var classSymbol: String?
        package var memberFrame: Frame?
        // What would have followed where an object was only retained so far, and the names of the superclasses.
        package var next: [NextUse] = []
        package var bases: [String] = []

        /// Makes a block of its parts. Each parameter is the property of its name.
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

        enum CodingKeys: String, CodingKey {
            case start, size, offset, state, language
            case className = "class"
            case member
            case allocatingThread = "alloc_thread"
            case freeingThread = "free_thread"
            case classSymbol = "class_symbol"
            case memberFrame = "member_frame"
            case next, bases
        }

        public init(from decoder: any Decoder) throws {
            let values = try decoder.container(keyedBy: CodingKeys.self)
            start = try values.decode(Address.self, forKey: .start)
            size = try values.decode(UInt64.self, forKey: .size)
            offset = try values.decodeIfPresent(Int64.self, forKey: .offset)
            state = try values.decodeIfPresent(String.self, forKey: .state)
            language = try values.decodeIfPresent(String.self, forKey: .language)
            className = try values.decodeIfPresent(String.self, forKey: .className)
            member = try values.decodeIfPresent(String.self, forKey: .member)
            allocatingThread = try values.decodeIfPresent(Int.self, forKey: .allocatingThread)
            freeingThread = try values.decodeIfPresent(Int.self, forKey: .freeingThread)
            classSymbol = try values.decodeIfPresent(String.self, forKey: .classSymbol)
            memberFrame = try values.decodeIfPresent(Frame.self, forKey: .memberFrame)
            next = try values.decodeIfPresent([NextUse].self, forKey: .next) ?? []
            bases = try values.decodeIfPresent([String].self, forKey: .bases) ?? []
        }

        /// Writes everything but what only raw findings have.
        public func encode(to encoder: any Encoder) throws {
            var values = encoder.container(keyedBy: CodingKeys.self)
            try values.encode(start, forKey: .start)
            try values.encode(size, forKey: .size)
            try values.encodeIfPresent(offset, forKey: .offset)
            try values.encodeIfPresent(state, forKey: .state)
            try values.encodeIfPresent(language, forKey: .language)
            try values.encodeIfPresent(className, forKey: .className)
            try values.encodeIfPresent(member, forKey: .member)
            try values.encodeIfPresent(allocatingThread, forKey: .allocatingThread)
            try values.encodeIfPresent(freeingThread, forKey: .freeingThread)
        }
    }

    /// What a program was about to do with an object: a call with the object as self, or a property by its name.
    package struct NextUse: Hashable, Codable, Sendable {
        package var access: Access
        package var member: String?
        package var memberFrame: Frame?
        package var memberSymbol: String?
        package var confidence: Confidence?

        enum CodingKeys: String, CodingKey {
            case access, member
            case memberFrame = "member_frame"
            case memberSymbol = "member_symbol"
            case confidence
        }
    }

    /// A thread of the guarded program: the runtime's own number, and the name where the thread has one.
    public struct Thread: Hashable, Codable, Sendable {
        /// The runtime's number; 1 is the main thread.
        public var id: Int
        /// As the kernel has it, of at most 15 bytes.
        public var name: String?

        /// Makes a thread of its number and its name.
        ///
        /// - Parameters:
        ///   - id: the runtime's number.
        ///   - name: nil where it has none.
        public init(id: Int, name: String? = nil) {
            self.id = id
            self.name = name
        }
    }

    /// The three stacks, innermost frame first. A stack that is not known is empty.
    public struct Stacks: Hashable, Codable, Sendable {
        /// Where the block was touched.
        public var access: [Frame]
        /// Where it was freed.
        public var free: [Frame]
        /// Where it was allocated.
        public var alloc: [Frame]
        /// Of two accesses that met, where the earlier one began: its innermost frame. Empty in findings of other kinds.
        public var previous: [Frame]
        /// Of an error that nobody caught, where it was thrown. Empty where it is not known or `access` shows it, and in findings of other kinds.
        public var thrown: [Frame]

        /// Makes the stacks; those left out are not known.
        ///
        /// - Parameters:
        ///   - access: where the block was touched.
        ///   - free: where it was freed.
        ///   - alloc: where it was allocated.
        ///   - previous: of two accesses that met, where the earlier one began.
        ///   - thrown: of an error that nobody caught, where it was thrown.
        public init(
            access: [Frame] = [], free: [Frame] = [], alloc: [Frame] = [], previous: [Frame] = [], thrown: [Frame] = []
        ) {
            self.access = access
            self.free = free
            self.alloc = alloc
            self.previous = previous
            self.thrown = thrown
        }

        public init(from decoder: any Decoder) throws {
            let values = try decoder.container(keyedBy: CodingKeys.self)
            access = try values.decodeIfPresent([Frame].self, forKey: .access) ?? []
            free = try values.decodeIfPresent([Frame].self, forKey: .free) ?? []
            alloc = try values.decodeIfPresent([Frame].self, forKey: .alloc) ?? []
            previous = try values.decodeIfPresent([Frame].self, forKey: .previous) ?? []
            thrown = try values.decodeIfPresent([Frame].self, forKey: .thrown) ?? []
        }

        enum CodingKeys: String, CodingKey {
            case access, free, alloc, previous, thrown
        }

        public func encode(to encoder: any Encoder) throws {
            var values = encoder.container(keyedBy: CodingKeys.self)
            try values.encode(access, forKey: .access)
            try values.encode(free, forKey: .free)
            try values.encode(alloc, forKey: .alloc)
            if !previous.isEmpty { try values.encode(previous, forKey: .previous) }
            if !thrown.isEmpty { try values.encode(thrown, forKey: .thrown) }
        }
    }

    /// One frame of a stack.
    public struct Frame: Hashable, Codable, Sendable {
        /// Lies inside the call instruction (or is the faulting one), not behind it.
        public var pc: Address
        /// Path of the executable or library.
        public var module: String?
        /// The module's build-id, in hexadecimal digits.
        public var buildID: String?
        /// The address as the module's ELF file counts it: `pc` without the load bias.
        public var offset: Address?
        /// The demangled name; nil where there is no symbol.
        public var function: String?
        /// Path of the source file, as the compiler was told; nil without debug information.
        public var file: String?
        /// From 1.
        public var line: Int?
        /// From 1, in bytes.
        public var column: Int?
        /// Whether the function was inlined into that of the next frame.
        public var inlined: Bool

        /// Makes a frame of its parts. Each parameter is the property of its name.
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

        enum CodingKeys: String, CodingKey {
            case pc, module
            case buildID = "build_id"
            case offset, function, file, line, column, inlined
        }

        public init(from decoder: any Decoder) throws {
            let values = try decoder.container(keyedBy: CodingKeys.self)
            func text(_ key: CodingKeys) throws -> String? {
                let text = try values.decodeIfPresent(String.self, forKey: key)
                return text == "" ? nil : text
            }
            pc = try values.decode(Address.self, forKey: .pc)
            module = try text(.module)
            buildID = try text(.buildID)
            offset = try text(.offset).flatMap { Address($0) }
            function = try text(.function)
            file = try text(.file)
            line = try values.decodeIfPresent(Int.self, forKey: .line)
            column = try values.decodeIfPresent(Int.self, forKey: .column)
            inlined = try values.decodeIfPresent(Bool.self, forKey: .inlined) ?? false
        }

        /// The module's file name without its directory.
        public var moduleName: String? { module.map { String($0.split(separator: "/").last ?? $0[...]) } }
    }
}

extension Finding.Frame {
    /// "shutdown (app.c:41)", or module and offset where there is no name. Safe to print.
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
    /// "checkout() (main.swift:41)", or module and offset where there is no name. Safe to print.
    public var description: String { shortPlace }
}
