// The parts of a finding: block, thread, stacks, frames.

extension Finding {
    /// The block that a finding is about.
    public struct Block: Hashable, Codable, Sendable {
        public var start: Address
        public var size: UInt64
        /// Distance of the finding's address from `start`; negative before the block.
        public var offset: Int64?
        /// `live`, `quarantined`, `retired` or `reusable`.
        public var state: String?
        public var language: String?
        /// The class of the object that lived in the block, such as `Shop.Cart`.
        public var className: String?
        /// The member of the class that was touched, such as `add(_:)`.
        public var member: String?
        /// Numbers of the threads that allocated and freed the block, where known.
        public var allocatingThread: Int?
        public var freeingThread: Int?

        // What only raw findings have, and symbolication makes class and member of: the symbol of a C++ class, and the
        // first instruction of the method that the program was about to call.
        var classSymbol: String?
        var memberFrame: Frame?

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

    /// A thread of the guarded program: the runtime's own number, and the name where the thread has one.
    public struct Thread: Hashable, Codable, Sendable {
        public var id: Int
        public var name: String?

        public init(id: Int, name: String? = nil) {
            self.id = id
            self.name = name
        }
    }

    /// The three stacks, innermost frame first. A stack that is not known is empty.
    public struct Stacks: Hashable, Codable, Sendable {
        public var access: [Frame]
        public var free: [Frame]
        public var alloc: [Frame]

        public init(access: [Frame] = [], free: [Frame] = [], alloc: [Frame] = []) {
            self.access = access
            self.free = free
            self.alloc = alloc
        }

        public init(from decoder: any Decoder) throws {
            let values = try decoder.container(keyedBy: CodingKeys.self)
            access = try values.decodeIfPresent([Frame].self, forKey: .access) ?? []
            free = try values.decodeIfPresent([Frame].self, forKey: .free) ?? []
            alloc = try values.decodeIfPresent([Frame].self, forKey: .alloc) ?? []
        }
    }

    /// One frame of a stack.
    public struct Frame: Hashable, Codable, Sendable {
        /// Lies inside the call instruction (or is the faulting one), not behind it.
        public var pc: Address
        /// Path of the executable or library.
        public var module: String?
        public var buildID: String?
        /// The address as the module's ELF file counts it: `pc` without the load bias.
        public var offset: Address?
        public var function: String?
        public var file: String?
        public var line: Int?
        public var column: Int?
        public var inlined: Bool

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
    var shortPlace: String {
        guard let function else { return moduleAndOffset }
        guard let file else { return visible(function) }
        let name = file.split(separator: "/").last.map(String.init) ?? file
        return "\(visible(function)) (\(visible(name))\(line.map { ":\($0)" } ?? ""))"
    }

    var moduleAndOffset: String {
        guard let module else { return "\(pc)" }
        return "\(visible(module))\(offset.map { "+\($0)" } ?? "")"
    }
}

extension Finding.Frame: CustomStringConvertible {
    /// "checkout() (main.swift:41)", or module and offset where there is no name. Safe to print.
    public var description: String { shortPlace }
}
