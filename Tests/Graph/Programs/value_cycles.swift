// Retain cycles through containers, enums, closures and generics, as cycles.swift has them for single properties.
// "// case:" is the only registration of a case: see cycles.swift.

import Glibc
import Observation
import Synchronization

final class Item {
    var owner: Shelf?
    unowned(safe) var place: Shelf?
}
struct Slot {
    var number = 7
    var item: Item?
}
final class Shelf {
    var slots: [Slot] = []
    var byName: [String: [Item]] = [:]
    var rows: [[Item?]]?
    var slice: ArraySlice<Item> = []
    var labelled: [(label: String, item: Item)] = []
    var parts = ContiguousArray<Item>()
}
// case: Shelf.slots → element of [Slot] → Item.owner → Shelf
func arrayOfStructs(_ isFixed: Bool) {
    let shelf = Shelf()
    let item = Item()
    shelf.slots = [Slot(), Slot(item: item)]
    if isFixed { item.place = shelf } else { item.owner = shelf }
}
// case: Shelf.byName → element of [String: [Item]] → element of [AnyObject] → Item.owner → Shelf
func nestedContainers(_ isFixed: Bool) {
    let shelf = Shelf()
    let item = Item()
    shelf.byName["front", default: []].append(item)
    if !isFixed { item.owner = shelf }
}
// case: Shelf.rows → element of [[Item?]] → element of [Item?] → Item.owner → Shelf
func optionalsInArrays(_ isFixed: Bool) {
    let shelf = Shelf()
    let item = Item()
    shelf.rows = [[nil], [nil, item]]
    if !isFixed { item.owner = shelf }
}
// case: Shelf.slice → element of [AnyObject] → Item.owner → Shelf
func arraySlice(_ isFixed: Bool) {
    let shelf = Shelf()
    let item = Item()
    shelf.slice = [Item(), item, Item()].dropFirst()
    if !isFixed { item.owner = shelf }
}
// case: Shelf.labelled → element of [(String, Item)] → Item.owner → Shelf
func tuplesInArray(_ isFixed: Bool) {
    let shelf = Shelf()
    let item = Item()
    shelf.labelled = [("a label that does not fit into a word", item)]
    if !isFixed { item.owner = shelf }
}

final class Page {
    var next: Page?
    var previous: Page?
    unowned var first: Page?
}
// A doubly linked list: two neighbouring pages are the shortest cycle.
// case: Page.next → Page.previous → Page | Page.previous → Page.next → Page
func doublyLinked(_ isFixed: Bool) {
    let first = Page()
    var last = first
    for _ in 0..<5 {
        let page = Page()
        page.first = first
        last.next = page
        if !isFixed { page.previous = last }
        last = page
    }
}

final class Model {
    var view: Canvas?
    unowned(safe) var borrowed: Canvas?
    unowned(unsafe) var unsafe: Canvas?
    weak var seen: Canvas?
}
final class Canvas {
    var model: Model?
    var other: Model?
}
// Unowned and weak references precede the strong reference.
// case: Canvas.other → Model.view → Canvas | Model.view → Canvas.other → Model
func amongUnowned(_ isFixed: Bool) {
    let canvas = Canvas()
    let model = Model()
    model.borrowed = canvas
    model.unsafe = canvas
    model.seen = canvas
    canvas.other = model
    if !isFixed { model.view = canvas }
}

enum Step {
    case single(Plan)
    case choice(Choice)
    case none
}
enum Choice {
    case yes(Plan, Int)
    case no(Int32)
    case text(String)
}
final class Plan { var step = Step.none }
// case: Plan.step → Plan.step → Plan
func nestedEnum(_ isFixed: Bool) {
    let first = Plan()
    let second = Plan()
    first.step = .single(second)
    if !isFixed { second.step = .choice(.yes(first, 3)) }
}

enum Expression {
    case number(Int)
    indirect case scaled(Expression, by: Int)
    case symbol(Symbol)
}
final class Symbol { var value = Expression.number(1) }
// Only one case is indirect. The object is the payload of another case.
// case: Symbol.value → indirect enum Expression → Symbol
func indirectCase(_ isFixed: Bool) {
    let symbol = Symbol()
    symbol.value = isFixed ? .scaled(.number(2), by: 3) : .scaled(.symbol(symbol), by: 3)
}

final class Loader { var result: Result<Loader, any Error>? }
// case: Loader.result → Loader
func resultPayload(_ isFixed: Bool) {
    let loader = Loader()
    if !isFixed { loader.result = .success(loader) }
}

struct LoadError: Error, @unchecked Sendable {
    var code = 404
    var source: Request?
}
final class Request { var lastError: (any Error)? }
// case: Request.lastError → boxed error → Request
func errorExistential(_ isFixed: Bool) {
    let request = Request()
    request.lastError = LoadError(source: isFixed ? nil : request)
}

final class Context { var userInfo: [AnyHashable: Any] = [:] }
// case: Context.userInfo → element of [AnyHashable: Any] → Context
func anyInDictionary(_ isFixed: Bool) {
    let context = Context()
    context.userInfo["sender under a name that is long"] = isFixed ? "nobody" : context
}

protocol Drawable { func draw() }
final class Shape: Drawable {
    var children: [any Drawable] = []
    var parent: (any Drawable)?
    func draw() {}
}
// case: Shape.children → element of [any Drawable] → Shape.parent → Shape | Shape.parent → Shape.children → element of [any Drawable] → Shape | Shape.children → element of [Drawable] → Shape.parent → Shape | Shape.parent → Shape.children → element of [Drawable] → Shape
func existentialsInArray(_ isFixed: Bool) {
    let parent = Shape()
    let child = Shape()
    parent.children.append(child)
    if !isFixed { child.parent = parent }
}

class Store<Value> {
    var value: Value?
    var observers: [(Value) -> Void] = []
}
final class Settings: Store<Settings> { var volume = 1 }
// case: Settings.value → Settings
func genericSuperclass(_ isFixed: Bool) {
    let settings = Settings()
    if !isFixed { settings.value = settings }
}
final class Binding<Root: AnyObject, Value> {
    let root: Root
    let read: (Root) -> Value
    init(_ root: Root, _ read: @escaping (Root) -> Value) {
        self.root = root
        self.read = read
    }
}
final class Form {
    var name = "a form"
    var binding: Binding<Form, String>?
}
// case: Form.binding → Binding<Form, String>.root → Form | Binding<Form, String>.root → Form.binding → Binding<Form, String>
func genericWithKeyPath(_ isFixed: Bool) {
    let form = Form()
    let other = Form()
    form.binding = Binding(isFixed ? other : form, \.name)
}

final class Grid: ManagedBuffer<Int, Cell?> {
    deinit { _ = withUnsafeMutablePointers { $1.deinitialize(count: $0.pointee) } }
}
final class Cell { var grid: Grid? }
// case: Grid → Cell.grid → Grid | element of Grid → Cell.grid → Grid | Cell.grid → element of Grid → Cell | Cell.grid → Grid → Cell
func managedBuffer(_ isFixed: Bool) {
    let grid = Grid.create(minimumCapacity: 3) { _ in 3 } as! Grid
    let cell = Cell()
    grid.withUnsafeMutablePointerToElements { cells in
        for index in 0..<3 { (cells + index).initialize(to: index == 1 ? cell : nil) }
    }
    if !isFixed { cell.grid = grid }
}

final class Table {
    let rows = UnsafeMutablePointer<Table?>.allocate(capacity: 4)
    init() { rows.initialize(repeating: nil, count: 4) }
    deinit {
        rows.deinitialize(count: 4)
        rows.deallocate()
    }
}
// case: Table.rows → a block of 32 bytes → Table
func unsafePointer(_ isFixed: Bool) {
    let table = Table()
    if !isFixed { table.rows[2] = table }
}

final class Guarded: Sendable {
    let state = Mutex<Guarded?>(nil)
}
// case: Guarded.state → Guarded
func mutex(_ isFixed: Bool) {
    let guarded = Guarded()
    if !isFixed { guarded.state.withLock { $0 = guarded } }
}

struct Index: Hashable {
    var owner: Catalog?
    static func == (a: Index, b: Index) -> Bool { a.owner === b.owner }
    func hash(into hasher: inout Hasher) { hasher.combine(owner.map { ObjectIdentifier($0) }) }
}
final class Catalog {
    var path: KeyPath<Catalog, Int>?
    subscript(index: Index) -> Int { 1 }
}
// A key path that has captured the argument of a subscript.
// case: Catalog.path →
func keyPath(_ isFixed: Bool) {
    let catalog = Catalog()
    let index = Index(owner: isFixed ? nil : catalog)
    catalog.path = \.[index]
}

struct Callbacks {
    var onStart: (() -> Void)?
    var onEnd: (@Sendable (Int) -> Void)?
}
final class Upload: @unchecked Sendable {
    var callbacks = Callbacks()
    var sent = 0
    func start(_ isFixed: Bool) {
        if isFixed {
            callbacks.onEnd = { [weak self] in self?.sent += $0 }
        } else {
            callbacks.onEnd = { self.sent += $0 }
        }
    }
}
// case: Upload.callbacks → closure #2 in Upload.start → Upload
func closureInStruct(_ isFixed: Bool) { Upload().start(isFixed) }

final class Wizard {
    var first: (() -> Void)?
    var second: (() -> Void)?
    var count = 0
    // The outer closure captures self weakly, but the inner closure captures the strong self of the outer closure.
    func start(_ isFixed: Bool) {
        first = { [weak self] in
            guard let self else { return }
            if isFixed { second = { [weak self] in self?.count += 1 } } else { second = { self.count += 1 } }
        }
        first?()
    }
}
// case: Wizard.second → closure #2 in closure #1 in Wizard.start → Wizard
func weakThenStrong(_ isFixed: Bool) {
    let wizard = Wizard()
    wizard.start(isFixed)
}

final class Editor {
    var save: (() -> Int)?
    var text = "text"
    func prepare(_ isFixed: Bool) {
        func length() -> Int { text.count }
        save = length
        if isFixed { save = nil }
    }
}
// case: Editor.save → length in Editor.prepare → Editor
func localFunction(_ isFixed: Bool) { Editor().prepare(isFixed) }

final class Logger {
    var message: (() -> String)?
    var name = "logger"
    func log(_ message: @autoclosure @escaping () -> String) { self.message = message }
}
// case: Logger.message → implicit closure
func autoclosure(_ isFixed: Bool) {
    let logger = Logger()
    logger.log(logger.name)
    if isFixed { logger.message = nil }
}

final class Token {
    let cancel: () -> Void
    init(_ cancel: @escaping () -> Void) { self.cancel = cancel }
}
// A captured variable holds a token, and the token's own closure clears the variable.
// case: Token.cancel → closure #1 in tokenInVariable → Token
func tokenInVariable(_ isFixed: Bool) {
    var token: Token?
    let cancel = { token = nil }
    token = Token(cancel)
    if isFixed { token?.cancel() }
}

final class Phone {
    var ring: (() -> Void)?
    var rings = 0
}
// Each closure has captured the other object.
// case: Phone.ring → closure #1 in twoClosures → Phone.ring → closure #2 in twoClosures → Phone | Phone.ring → closure #2 in twoClosures → Phone.ring → closure #1 in twoClosures → Phone
func twoClosures(_ isFixed: Bool) {
    let first = Phone()
    let second = Phone()
    first.ring = { second.rings += 1 }
    second.ring = { first.rings += 1 }
    if isFixed { first.ring = nil }
}

final class AnyCancellable: Hashable {
    let cancel: () -> Void
    init(_ cancel: @escaping () -> Void) { self.cancel = cancel }
    deinit { cancel() }
    func store(in set: inout Set<AnyCancellable>) { set.insert(self) }
    static func == (a: AnyCancellable, b: AnyCancellable) -> Bool { a === b }
    func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}
final class Subject<Output> {
    private var sinks: [Int: (Output) -> Void] = [:]
    func sink(_ body: @escaping (Output) -> Void) -> AnyCancellable {
        let number = sinks.count
        sinks[number] = body
        return AnyCancellable { [weak self] in self?.sinks[number] = nil }
    }
}
final class Cart {
    let total = Subject<Int>()
    var cancellables: Set<AnyCancellable> = []
    var shown = 0
    func bind(_ isFixed: Bool) {
        if isFixed {
            total.sink { [weak self] in self?.shown = $0 }.store(in: &cancellables)
        } else {
            total.sink { self.shown = $0 }.store(in: &cancellables)
        }
    }
}
// case: Cart.total → Subject<Int>.sinks → element of [Int: (Int) -> ()] → closure #2 in Cart.bind → Cart
func combineLike(_ isFixed: Bool) { Cart().bind(isFixed) }

final class Presenter {
    let screen: LazyScreen
    init(_ screen: LazyScreen) { self.screen = screen }
}
final class LazyScreen { lazy var presenter: Presenter? = Presenter(self) }
// case: LazyScreen.presenter → Presenter.screen → LazyScreen | Presenter.screen → LazyScreen.presenter → Presenter
func lazyObject(_ isFixed: Bool) {
    let screen = LazyScreen()
    _ = screen.presenter
    if isFixed { screen.presenter = nil }
}

@propertyWrapper final class Published<Value> {
    var wrappedValue: Value {
        didSet { for observer in observers { observer(wrappedValue) } }
    }
    var observers: [(Value) -> Void] = []
    var projectedValue: Published<Value> { self }
    init(wrappedValue: Value) { self.wrappedValue = wrappedValue }
}
final class Player {
    @Published var volume = 1
    var shown = 0
    func watch(_ isFixed: Bool) {
        if isFixed {
            $volume.observers.append { [weak self] in self?.shown = $0 }
        } else {
            $volume.observers.append { self.shown = $0 }
        }
    }
}
// case: Player._volume → Published<Int>.observers → element of [(Int) -> ()] → closure #2 in Player.watch → Player | Published<Int>.observers → element of [(Int) -> ()] → closure #2 in Player.watch → Player._volume → Published<Int>
func propertyWrapper(_ isFixed: Bool) { Player().watch(isFixed) }

@Observable final class Document {
    var title = "a title"
    @ObservationIgnored var changes = 0
    func watch(_ isFixed: Bool) {
        if isFixed {
            withObservationTracking {
                _ = title
            } onChange: { [weak self] in
                self?.changes += 1
            }
        } else {
            withObservationTracking {
                _ = title
            } onChange: {
                self.changes += 1
            }
        }
    }
}
extension Document: @unchecked Sendable {}
// case: Document._$observationRegistrar →
func observable(_ isFixed: Bool) { Document().watch(isFixed) }

final class Bundle<each Part> {
    let parts: (repeat each Part)
    init(_ parts: repeat each Part) { self.parts = (repeat each parts) }
}
final class Crate { var bundle: Bundle<Int, Crate>? }
// case: Crate.bundle → Bundle.parts → Crate | Bundle.parts → Crate.bundle → Bundle | Crate.bundle → Bundle<Int, Crate>.parts → Crate
func variadic(_ isFixed: Bool) {
    let crate = Crate()
    crate.bundle = Bundle(1, isFixed ? Crate() : crate)
}

protocol Router: AnyObject { var routes: [any Router] { get set } }
final class MainRouter: Router { var routes: [any Router] = [] }
// case: MainRouter.routes → element of [any Router] → MainRouter | MainRouter.routes → element of [Router] → MainRouter
func classBoundInArray(_ isFixed: Bool) {
    let router = MainRouter()
    router.routes.append(isFixed ? MainRouter() : router)
}

struct Owned {
    unowned let owner: Nest
    let number: Int
}
final class Nest {
    var parts: [Owned] = []
    var part: Owned?
}
// Unowned references within structs: no cycle, although the object is never freed.
// case: - leak
func unownedInStruct(_ isFixed: Bool) {
    let nest = Nest()
    nest.part = Owned(owner: nest, number: 1)
    nest.parts = [Owned(owner: nest, number: 2)]
    if !isFixed { _ = Unmanaged.passRetained(nest) }
}
final class Erased { var part: Any? }
// An unowned reference in an existential: no cycle, although the object is never freed.
// case: - leak
func unownedInExistential(_ isFixed: Bool) {
    struct Part { unowned let owner: Erased }
    let erased = Erased()
    erased.part = Part(owner: erased)
    if !isFixed { _ = Unmanaged.passRetained(erased) }
}
final class Caller {
    var call: (() -> Int)?
    var count = 1
}
// An unowned capture: no cycle, although the object is never freed.
// case: - leak
func unownedCapture(_ isFixed: Bool) {
    let caller = Caller()
    caller.call = { [unowned caller] in caller.count }
    if !isFixed { _ = Unmanaged.passRetained(caller) }
}

nonisolated(unsafe) let cases: [(name: String, run: (Bool) -> Void)] = [
    ("arrayOfStructs", arrayOfStructs), ("nestedContainers", nestedContainers),
    ("optionalsInArrays", optionalsInArrays), ("arraySlice", arraySlice), ("tuplesInArray", tuplesInArray),
    ("doublyLinked", doublyLinked), ("amongUnowned", amongUnowned), ("nestedEnum", nestedEnum),
    ("indirectCase", indirectCase), ("resultPayload", resultPayload), ("errorExistential", errorExistential),
    ("anyInDictionary", anyInDictionary), ("existentialsInArray", existentialsInArray),
    ("genericSuperclass", genericSuperclass), ("genericWithKeyPath", genericWithKeyPath),
    ("managedBuffer", managedBuffer), ("unsafePointer", unsafePointer), ("mutex", mutex), ("keyPath", keyPath),
    ("closureInStruct", closureInStruct), ("weakThenStrong", weakThenStrong), ("localFunction", localFunction),
    ("autoclosure", autoclosure), ("tokenInVariable", tokenInVariable), ("twoClosures", twoClosures),
    ("combineLike", combineLike), ("lazyObject", lazyObject), ("propertyWrapper", propertyWrapper),
    ("observable", observable), ("variadic", variadic), ("classBoundInArray", classBoundInArray),
    ("unownedInStruct", unownedInStruct), ("unownedInExistential", unownedInExistential),
    ("unownedCapture", unownedCapture),
]
