// Gives Swift code the runtime's option table and option parser, which the runtime uses as well.

import CZombie

/// The table of the runtime's options.
public enum OptionTable {
    /// One option.
    public struct Option: Hashable, Sendable {
        /// The type of an option's value.
        public enum Kind: String, CaseIterable, Sendable {
            /// `1`, `yes`, `true` or `on`; `0`, `no`, `false` or `off`.
            case bool
            /// A whole number.
            case number
            /// A number of bytes, optionally with the suffix `k`, `m`, `g` or `t`.
            case bytes
            /// A percentage, with or without a percent sign.
            case percent
            /// One of the words in ``choices``.
            case choice
            /// The path of a file.
            case path
            /// Arbitrary names, separated by commas.
            case names
            /// Any of the words in ``choices``, separated by commas.
            case words
        }

        /// The name, as in `name=value`.
        public var name: String
        /// The type of the option's value.
        public var kind: Kind
        /// The default value: for a choice, an index in ``choices``; for words, a bit for each of ``choices``.
        public var initial: Int64
        /// The smallest valid value.
        public var least: Int64
        /// The largest valid value.
        public var most: Int64
        /// The words of a choice or of `words`; empty for other kinds.
        public var choices: [String]
        /// The title of the option's group, such as "Isolated blocks".
        public var group: String
        /// False for an option for tests and special machines, which lists of options leave out.
        public var isShown: Bool
        /// A description of the option, in one line.
        public var text: String
        /// Further sentences about the option; may be empty.
        public var details: String

        /// The default as written in options; empty for paths and names.
        public var initialText: String {
            switch kind {
            case .bool, .number: String(initial)
            case .bytes: Self.short(initial)
            case .percent: Self.percent(initial)
            case .choice: choices.indices.contains(Int(initial)) ? choices[Int(initial)] : ""
            case .words where initial == 0: "none"
            case .words: choices.indices.filter { initial >> $0 & 1 != 0 }.map { choices[$0] }.joined(separator: ",")
            case .path, .names: ""
            }
        }

        /// The valid values, such as "0 to 128".
        public var rangeText: String {
            switch kind {
            case .bool: "0 or 1"
            case .number: "\(least) to \(most)"
            case .bytes: "\(Self.short(least)) to \(Self.short(most))"
            case .percent: "\(Self.percent(least)) to \(Self.percent(most))"
            case .choice: choices.joined(separator: "|")
            case .words: "none|" + choices.joined(separator: ",")
            case .path: "path"
            case .names: "names"
            }
        }

        // Tenths of a percent: 25 -> "2.5%"
        private static func percent(_ tenths: Int64) -> String {
            tenths % 10 == 0 ? "\(tenths / 10)%" : "\(tenths / 10).\(tenths % 10)%"
        }

        // 8388608 -> "8m"
        private static func short(_ bytes: Int64) -> String {
            for (suffix, shift) in [("t", 40), ("g", 30), ("m", 20), ("k", 10)] as [(String, Int64)]
            where bytes != 0 && bytes & (1 << shift - 1) == 0 {
                return "\(bytes >> shift)\(suffix)"
            }
            return String(bytes)
        }
    }

    /// An error in a text of options.
    public enum Problem: Hashable, Sendable {
        /// There is no option of that name. `nearest` is the most similar name.
        case unknown(name: String, nearest: String?)
        /// The value is invalid. `expected` describes the valid values.
        case badValue(name: String, value: String, expected: String)
    }

    /// Every option, in the order of the table.
    public static let options: [Option] = withUnsafeBytes(of: zg_option_table) { bytes in
        withUnsafeBytes(of: zg_option_descriptions) { descriptions in
            zip(bytes.bindMemory(to: zg_option_info.self), descriptions.bindMemory(to: zg_option_description.self))
                .map { info, description in
                    Option(
                        name: String(cString: info.name), kind: kind(info.kind), initial: info.initial,
                        least: info.least, most: info.most,
                        choices: String(cString: info.choices).split(separator: ", ").map(String.init),
                        group: groups[Int(description.group.rawValue)], isShown: description.is_shown,
                        text: String(cString: description.text), details: String(cString: description.details))
                }
        }
    }

    /// The titles of the groups, in the order of the table.
    public static let groups: [String] = withUnsafeBytes(of: zg_option_group_titles) { bytes in
        bytes.bindMemory(to: UnsafePointer<CChar>.self).map { String(cString: $0) }
    }

    /// The names of options by their former names, which the parser accepts as well.
    public static let aliases: [String: String] = withUnsafeBytes(of: zg_option_aliases) { bytes in
        let pairs = bytes.bindMemory(to: zg_option_alias.self).map {
            (String(cString: $0.name), options[Int($0.option.rawValue)].name)
        }
        return Dictionary(uniqueKeysWithValues: pairs)
    }

    /// Looks up an option by its name or a former spelling.
    ///
    /// - Parameter name: the name, such as `quarantine_bytes`.
    /// - Returns: the option; nil if there is none of that name.
    public static func option(_ name: String) -> Option? {
        let name = aliases[name] ?? name
        return options.first { $0.name == name }
    }

    /// The kind names of the C table; each is a case of ``Option/Kind``.
    static let kindNames = withUnsafeBytes(of: zg_option_kind_names) { bytes in
        bytes.bindMemory(to: UnsafePointer<CChar>.self).map { String(cString: $0) }
    }

    private static func kind(_ kind: zg_option_kind) -> Option.Kind {
        guard let known = Option.Kind(rawValue: kindNames[Int(kind.rawValue)]) else {
            preconditionFailure("zg_options.h has an option kind that OptionTable lacks")
        }
        return known
    }

    /// Values by option name, defaults included. Choices are given by index; paths and names are left out.
    public typealias Settings = [String: Int64]

    /// Parses "key=value:key=value" as the runtime does: unknown keys are skipped, and parsing stops at the first
    /// invalid value.
    ///
    /// - Parameter text: as in ZGUARD_OPTIONS.
    /// - Returns: the resulting values, and the errors.
    public static func parse(_ text: String) -> (settings: Settings, problems: [Problem]) {
        var parsed = zg_options()
        zg_options_defaults(&parsed)
        var problems: [Problem] = []
        withUnsafeMutablePointer(to: &problems) { problems in
            _ = zg_options_parse(
                &parsed, text,
                { error, context in
                    guard let error, let context else { return }
                    context.assumingMemoryBound(to: [Problem].self).pointee.append(OptionTable.problem(error.pointee))
                }, problems)
        }
        let values = withUnsafeBytes(of: parsed.value) { Array($0.bindMemory(to: Int64.self)) }
        let settings = zip(options, values).filter { $0.0.kind != .path && $0.0.kind != .names }.map {
            ($0.0.name, $0.1)
        }
        return (Settings(uniqueKeysWithValues: settings), problems)
    }

    /// Removes the entries whose key is not in the table.
    ///
    /// - Parameter text: as in ZGUARD_OPTIONS.
    /// - Returns: the remaining entries.
    public static func withoutUnknown(_ text: String) -> String {
        let names = Set(options.map(\.name)).union(aliases.keys)
        let entries = text.split(separator: ":")
        return entries.filter { names.contains(String($0.prefix { $0 != "=" })) }.joined(separator: ":")
    }

    private static func problem(_ error: zg_option_error) -> Problem {
        func text(_ field: UnsafeRawBufferPointer) -> String {
            String(decoding: field.prefix { $0 != 0 }, as: UTF8.self)
        }
        let name = withUnsafeBytes(of: error.name) { text($0) }
        let expected = withUnsafeBytes(of: error.expected) { text($0) }
        if error.what == zg_option_unknown {
            return .unknown(name: name, nearest: expected.isEmpty ? nil : expected)
        }
        return .badValue(name: name, value: withUnsafeBytes(of: error.value) { text($0) }, expected: expected)
    }
}
