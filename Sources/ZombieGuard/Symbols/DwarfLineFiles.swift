// Reads the file and directory names in the header of a line table.

import CDwarf

/// The files and directories of one line table. They are read when the first path is requested.
struct DwarfLineFiles {
    private struct File {
        var name: String
        var directory: UInt64
    }

    private let unit: DwarfUnit
    private let encoding: DwarfEncoding
    private var header: ByteCursor
    private var isRead = false
    private var directories: [String] = []
    private var files: [File] = []
    private var defined: [File] = []

    private static let mostEntries = 1 << 20

    /// `header` starts behind standard_opcode_lengths.
    init(_ unit: DwarfUnit, _ header: ByteCursor, _ encoding: DwarfEncoding) {
        self.unit = unit
        self.header = header
        self.encoding = encoding
    }

    /// The path of a file by its number in the table; absolute if the unit has the compiler's working directory. nil if
    /// there is no such file.
    mutating func path(_ number: UInt64) -> String? {
        if !isRead {
            isRead = true
            if encoding.version >= 5 { readTables() } else { readLists() }
        }
        let isNew = encoding.version >= 5
        // Versions before 5 count files and directories from 1.
        let index = isNew ? number : number &- 1
        guard index < UInt64(files.count + defined.count) else { return nil }
        let file = index < UInt64(files.count) ? files[Int(index)] : defined[Int(index) - files.count]
        if file.name.hasPrefix("/") { return file.name }
        var directory = ""
        let place = isNew ? file.directory : file.directory &- 1
        if place < UInt64(directories.count) { directory = directories[Int(place)] }
        // In version 5, directory 0 is the compiler's working directory.
        let isComplete = directory.hasPrefix("/") || isNew && file.directory == 0
        let start = isComplete ? "" : unit.directory ?? ""
        return [start, directory, file.name].reduce("") { Self.join($0, $1) }
    }

    private static func join(_ path: String, _ name: String) -> String {
        if path.isEmpty || name.isEmpty { return path + name }
        return path.hasSuffix("/") ? path + name : path + "/" + name
    }

    /// Adds a file defined by the line program (DW_LNE_define_file).
    mutating func define(_ cursor: inout ByteCursor) {
        if defined.count < Self.mostEntries, let file = Self.readFile(&cursor) { defined.append(file) }
    }

    private static func readFile(_ cursor: inout ByteCursor) -> File? {
        let name = cursor.text()
        let directory = cursor.variableNumber()
        _ = cursor.variableNumber() // modification time
        _ = cursor.variableNumber() // size
        return cursor.failed || name.isEmpty ? nil : File(name: name, directory: directory)
    }

    // Versions 2 to 4: a list of directories and a list of files, each terminated by an empty name.
    private mutating func readLists() {
        while directories.count < Self.mostEntries, case let name = header.text(), !name.isEmpty, !header.failed {
            directories.append(name)
        }
        while files.count < Self.mostEntries, !header.failed, header.isAtEnd == false {
            var rest = header
            if rest.number(UInt8.self) == 0 { return }
            guard let file = Self.readFile(&header) else { return }
            files.append(file)
        }
    }

    // Version 5: two tables, each preceded by a description of its columns.
    private mutating func readTables() {
        directories = readTable().map(\.name)
        files = readTable()
    }

    private mutating func readTable() -> [File] {
        let columns = (0..<header.number(UInt8.self)).map { _ in
            (content: header.variableNumber(), form: header.variableNumber())
        }
        let count = header.variableNumber()
        var files: [File] = []
        while files.count < min(count, UInt64(Self.mostEntries)), !header.failed, !header.isAtEnd {
            var file = File(name: "", directory: 0)
            for (content, form) in columns {
                let start = header
                let value = DwarfForm.read(form, constant: 0, &header, encoding)
                switch Int(truncatingIfNeeded: content) {
                case DW_LNCT_path:
                    if case .inlineText = value {
                        var text = start
                        file.name = text.text()
                    } else {
                        file.name = unit.text(value) ?? ""
                    }
                case DW_LNCT_directory_index: file.directory = value.number ?? 0
                default: break
                }
            }
            files.append(file)
        }
        return files
    }
}
