/// A library that lends books.
public final class Library {
    /// An item to lend.
    public final class Book: Hashable {
        public let title: String
        public private(set) weak var reader: Reader?

        public init(_ title: String) { self.title = title }

        fileprivate func pass(to reader: Reader?) { self.reader = reader }

        public static func == (left: Book, right: Book) -> Bool { left === right }
        public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
    }

    /// Reason why a book was not lent.
    public enum Refusal: Error, Equatable {
        case unknown(String)
        case lent(to: String)
    }

    private var books: [String: Book] = [:]

    public init() {}

    public var count: Int { books.count }

    /// Adds a book.
    ///
    /// - Parameter title: its title, which is also its key
    @discardableResult
    public func add(_ title: String) -> Book {
        let book = Book(title)
        books[title] = book
        return book
    }

    /// Lends a book to a ``Reader``.
    ///
    /// - Throws: ``Refusal`` if there is no such book, or another reader has it
    public func lend(_ title: String, to reader: Reader) throws {
        guard let book = books[title] else { throw Refusal.unknown(title) }
        if let other = book.reader { throw Refusal.lent(to: other.name) }
        book.pass(to: reader)
        reader.take(book)
    }
}

/// A reader of books.
public final class Reader {
    public let name: String
    public private(set) var books: Set<Library.Book> = []

    public init(_ name: String) { self.name = name }

    func take(_ book: Library.Book) { books.insert(book) }
}

/// Counts loans from anywhere.
public actor Desk {
    private var loans = 0
    public init() {}
    public func record() { loans += 1 }
    public var total: Int { loans }
}
